// A limiter or an all_of of any type, or no limit at all, behind one type: what a table of routes can hold.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/call.hpp>
#include <ratelimit/decision.hpp>

namespace ratelimit {

// What a policy answers: the binding limit's decision, and each limit's own. Without a limit the call is allowed, from
// source::unlimited, and there are no parts. http::headers, http::status and http::problem_json take it as it is.
struct policy_decision : decision {
  std::vector<decision> parts{};
};

// Thread-safe, cheap to copy: copies share the limiter. The limiter's store must outlive it. One allocation each call,
// for the parts. The members are a limiter's of these names.
class policy {
 public:
  // No limit.
  policy() noexcept = default;

  // Keeps a copy of the limiter or all_of.
  template <class Limit>
  requires(!std::same_as<Limit, policy>) && requires(const Limit& limit, const call& c) {
    { limit.check(c) } -> std::derived_from<decision>;
    { limit.peek(c) } -> std::derived_from<decision>;
  }
  policy(Limit limit) : limit_{std::make_shared<const holder<Limit>>(std::move(limit))} {}

  bool limited() const noexcept { return limit_ != nullptr; }

  policy_decision check(const call& c) const { return limit_ ? limit_->check(c) : unlimited(); }
  policy_decision check(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return check(call{identity, region, cost});
  }
  policy_decision peek(const call& c) const { return limit_ ? limit_->peek(c) : unlimited(); }
  policy_decision peek(std::string_view identity, std::string_view region = {}, std::int64_t cost = 1) const {
    return peek(call{identity, region, cost});
  }
  policy_decision refund(std::string_view identity, std::string_view region, std::int64_t cost) const {
    return limit_ ? limit_->refund(identity, region, cost, std::nullopt) : unlimited();
  }
  policy_decision refund(std::string_view identity, std::string_view region, std::int64_t cost,
                         time_point taken) const {
    return limit_ ? limit_->refund(identity, region, cost, taken) : unlimited();
  }
  std::error_code reset(std::string_view identity, std::string_view region = {}) const {
    return limit_ ? limit_->reset(identity, region) : std::error_code{};
  }

 private:
  struct any_limit {
    virtual ~any_limit() = default;
    virtual policy_decision check(const call& c) const = 0;
    virtual policy_decision peek(const call& c) const = 0;
    virtual policy_decision refund(std::string_view identity, std::string_view region, std::int64_t cost,
                                   std::optional<time_point> taken) const = 0;
    virtual std::error_code reset(std::string_view identity, std::string_view region) const = 0;
  };

  template <class Limit>
  struct holder final : any_limit {
    explicit holder(Limit held) : limit{std::move(held)} {}

    policy_decision check(const call& c) const override { return with_parts(limit.check(c)); }
    policy_decision peek(const call& c) const override { return with_parts(limit.peek(c)); }
    policy_decision refund(std::string_view identity, std::string_view region, std::int64_t cost,
                           std::optional<time_point> taken) const override {
      return with_parts(taken ? limit.refund(identity, region, cost, *taken) : limit.refund(identity, region, cost));
    }
    std::error_code reset(std::string_view identity, std::string_view region) const override {
      return limit.reset(identity, region);
    }

    Limit limit;
  };

  template <class Decision>
  static policy_decision with_parts(const Decision& d) {
    if constexpr (requires { d.parts; }) {
      return {d, {d.parts.begin(), d.parts.end()}};
    } else {
      return {d, {d}};
    }
  }

  static policy_decision unlimited() {
    policy_decision d;
    d.allowed = true;
    d.from = source::unlimited;
    return d;
  }

  std::shared_ptr<const any_limit> limit_{};
};

// What stands for routes that are not limited.
inline const policy no_limit{};

}  // namespace ratelimit
