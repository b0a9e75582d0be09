// One policy at work: asks its limiter about each request, and counts the verdicts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ratelimit/ratelimit.hpp>

#include "policy.hpp"

namespace replay {

class tally {
 public:
  // The most keys a policy's store holds at once, about 200 MB of them.
  static constexpr std::size_t most_keys = 1'000'000;

  tally(policy chosen, const ratelimit::manual_clock& clock)
      : policy_{std::move(chosen)}, check_{make_check(*store_, policy_, "policy", clock)} {
    // What has a window and is not exact is measured against the log that is. Each counts what it admitted itself.
    if (policy_.kind == algorithm::sliding_counter || policy_.kind == algorithm::fixed_window) {
      policy exact = policy_;
      exact.kind = algorithm::sliding_log;
      exact_ = make_check(*store_, exact, "exact", clock);
    }
  }

  void ask(const std::string& client, std::string_view path) {
    const bool admitted = check_(client, path).allowed;
    if (admitted) {
      ++admitted_;
    } else {
      ++refused_;
      ++refused_by_client_[client];
    }
    if (exact_) {
      const bool right = exact_(client, path).allowed;
      if (admitted && !right) ++wrongly_admitted_;
      if (!admitted && right) ++wrongly_refused_;
    }
  }

  struct client_count {
    std::string_view client;
    std::uint64_t refused;
  };

  // The clients refused most, the most first; views valid until the next ask().
  std::vector<client_count> refused_most(std::size_t count) const {
    std::vector<client_count> all;
    for (const auto& [client, refused] : refused_by_client_) all.push_back({client, refused});
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
    std::partial_sort(all.begin(), end, all.end(), [](const client_count& a, const client_count& b) {
      return a.refused != b.refused ? a.refused > b.refused : a.client < b.client;
    });
    all.erase(end, all.end());
    return all;
  }

  const policy& chosen() const noexcept { return policy_; }
  std::uint64_t admitted() const noexcept { return admitted_; }
  std::uint64_t refused() const noexcept { return refused_; }
  bool compared() const noexcept { return exact_ != nullptr; }
  std::uint64_t wrongly_admitted() const noexcept { return wrongly_admitted_; }
  std::uint64_t wrongly_refused() const noexcept { return wrongly_refused_; }
  std::size_t clients_refused() const noexcept { return refused_by_client_.size(); }
  // The store may have forgotten keys that still mattered: the figures then admit too much.
  bool full() const { return store_->size() >= most_keys; }

 private:
  policy policy_;
  std::unique_ptr<ratelimit::memory> store_ =
      std::make_unique<ratelimit::memory>(ratelimit::memory_options{.entries = most_keys});
  check check_;
  check exact_;
  std::uint64_t admitted_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t wrongly_admitted_ = 0;
  std::uint64_t wrongly_refused_ = 0;
  std::unordered_map<std::string, std::uint64_t> refused_by_client_;
};

}  // namespace replay
