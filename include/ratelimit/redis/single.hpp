// One server, always the same.
#pragma once

#include <span>
#include <utility>

#include <ratelimit/failure.hpp>
#include <ratelimit/redis/ask.hpp>
#include <ratelimit/redis/batch.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

class single {
 public:
  explicit single(redis_options chosen) : server_{std::move(chosen)} {}

  // All keys of one server can be decided in one step.
  static bool can_join(std::span<const request>) noexcept { return true; }

  outcome run(const request& what, const deadline& until) { return ask_one(server_, what, until); }
  void run_many(const batch& all, const deadline& until) { ask_many(server_, all.what, all.together, all.out, until); }

 private:
  pool server_;
};

}  // namespace ratelimit::detail
