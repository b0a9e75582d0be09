// Requests on their way to a server, and back as outcomes.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/failure.hpp>
#include <ratelimit/redis/answer.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/redis/script.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// Groups of `together` consecutive requests, each answered as one, independently of the others.
struct batch {
  std::span<const request> what;
  std::size_t together;
  std::span<outcome> out;

  std::size_t size() const noexcept { return what.size() / together; }
  std::span<const request> group(std::size_t at) const { return what.subspan(at * together, together); }
  std::span<outcome> answer(std::size_t at) const { return out.subspan(at * together, together); }
  void fail(std::size_t at, std::error_code why) const {
    for (outcome& one : answer(at)) one = {.error = why};
  }
  std::vector<std::size_t> all() const {
    std::vector<std::size_t> every(size());
    std::iota(every.begin(), every.end(), std::size_t{0});
    return every;
  }
};

// How groups are put to a server.
struct wording {
  named_by name = named_by::sha1;
  bool asking = false;  // of a cluster's node that is still receiving their slot: ASKING goes before each
};

// An error reply. Some mean that nothing was run, and that it is worth asking again.
struct refusal {
  std::size_t index;  // where its group stands among those asked
  std::string text;
};

struct hearing {
  // Why the groups whose replies did not come have none. errc::refused: no connection was made, and nothing was sent.
  std::error_code broken{};
  std::vector<refusal> refusals{};
};

// One pipeline to one server for the groups `asked`. Their outcomes are written, errors too.
inline hearing ask(pool& server, const batch& all, std::span<const std::size_t> asked, wording how,
                   const deadline& until) {
  std::string commands;
  for (const std::size_t group : asked) {
    if (how.asking) append_command(commands, std::array<std::string_view, 1>{"ASKING"});
    append_group(commands, all.group(group), how.name);
  }
  hearing made;
  std::size_t heard = 0;
  bool is_prelude = how.asking;
  const std::size_t replies = asked.size() * (how.asking ? 2 : 1);
  made.broken = server.call(commands, replies, until, [&](const redisReply& got) -> std::error_code {
    // Had ASKING been refused, so would be what follows it.
    if (is_prelude) {
      is_prelude = false;
      return {};
    }
    is_prelude = how.asking;
    const std::size_t index = heard++;
    if (is_error(got)) made.refusals.push_back({index, std::string{text_of(got)}});
    return read_group(all.group(asked[index]), got, all.answer(asked[index])).error();
  });
  for (; heard < asked.size(); ++heard) all.fail(asked[heard], made.broken);
  return made;
}

}  // namespace ratelimit::detail
