// One server, always the same.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/failure.hpp>
#include <ratelimit/redis/batch.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/script.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

class single {
 public:
  explicit single(redis_options chosen) : server_{std::move(chosen)} {}

  // All keys of one server can be decided in one step.
  static bool can_join(std::span<const request>) noexcept { return true; }

  // One pipeline; and one more for the groups whose script the server did not know.
  void run(const batch& all, const deadline& until) {
    std::vector<std::size_t> asked = all.all();
    for (const named_by name : {named_by::sha1, named_by::source}) {
      std::vector<std::size_t> unknown;
      const hearing heard = ask(server_, all, asked, {.name = name}, until);
      for (const refusal& one : heard.refusals)
        if (is_unknown_script(one.text)) unknown.push_back(asked[one.index]);
      if (unknown.empty()) return;
      asked = std::move(unknown);
    }
  }

 private:
  pool server_;
};

}  // namespace ratelimit::detail
