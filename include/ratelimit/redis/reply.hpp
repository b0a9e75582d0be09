// A reply, and what an error reply means.
#pragma once

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <ratelimit/error.hpp>

namespace ratelimit::detail {

struct free_reply {
  void operator()(redisReply* raw) const noexcept { freeReplyObject(raw); }
};
using reply = std::unique_ptr<redisReply, free_reply>;

struct free_reader {
  void operator()(redisReader* raw) const noexcept { redisReaderFree(raw); }
};
using reader = std::unique_ptr<redisReader, free_reader>;

// hiredis' reader makes room for all the elements an array announces before the first has come, and a few bytes of
// garbage can announce two thousand million. What no command of ours gets in reply is an error at once. Empty when
// there is no memory.
inline reader make_reader() {
  reader made{redisReaderCreate()};
  if (!made) return made;
  static const redisReplyObjectFunctions original = *made->fn;
  static redisReplyObjectFunctions bounded = [] {
    redisReplyObjectFunctions functions = original;
    functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
      return elements > 100'000 ? nullptr : original.createArray(task, elements);
    };
    return functions;
  }();
  made->fn = &bounded;
  return made;
}

// The text of a string, a status or an error. It may hold NULs.
inline std::string_view text_of(const redisReply& from) noexcept {
  return {from.str, from.len};
}
inline bool is_error(const redisReply& from) noexcept {
  return from.type == REDIS_REPLY_ERROR;
}

// An integer that a script of ours may reply with: a count or a time, and so far from the ends of the type that sums of
// a few do not leave it.
inline bool is_number(const redisReply& from) noexcept {
  constexpr std::int64_t most = std::int64_t{1} << 54;
  return from.type == REDIS_REPLY_INTEGER && from.integer <= most && from.integer >= -most;
}
// An array of these alone.
inline bool holds_numbers(const redisReply& from) noexcept {
  return from.type == REDIS_REPLY_ARRAY &&
         std::all_of(from.element, from.element + from.elements, [](const redisReply* one) { return is_number(*one); });
}
inline std::int64_t integer_at(const redisReply& from, std::size_t index) noexcept {
  return from.element[index]->integer;
}

// An error reply's first word says what kind it is.
inline errc errc_of(std::string_view text) noexcept {
  const std::string_view word = text.substr(0, text.find(' '));
  const auto is_one_of = [word](auto... names) { return ((word == names) || ...); };
  if (is_one_of("NOAUTH", "WRONGPASS", "NOPERM", "DENIED")) return errc::permission;
  if (is_one_of("OOM")) return errc::out_of_memory;
  if (is_one_of("READONLY")) return errc::read_only;
  if (is_one_of("LOADING")) return errc::loading;
  if (is_one_of("BUSY")) return errc::busy;
  if (is_one_of("MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN")) return errc::cluster;
  if (text.starts_with("ERR max number of clients")) return errc::too_many_clients;
  // No EVALSHA before 2.6; and before 5 no script that writes after it has asked for the time.
  if (text.starts_with("ERR unknown command") || text.find("after non deterministic commands") != text.npos)
    return errc::unsupported_server;
  // A command that the ACL refuses to a script, and not to the client itself, is an ERR.
  if (text.starts_with("ERR The user executing the script can't") || text.starts_with("ERR ACL failure in script"))
    return errc::permission;
  return errc::script;
}

// True when the server cannot run anything just now, and will by itself: it ran nothing.
inline bool is_passing(std::string_view text) noexcept {
  const std::string_view word = text.substr(0, text.find(' '));
  return word == "LOADING" || word == "BUSY" || word == "TRYAGAIN" || word == "CLUSTERDOWN" || word == "MASTERDOWN";
}

// errc_of for the handshake, where whatever has no kind of its own is about the database or the credentials.
inline errc handshake_errc_of(std::string_view text) noexcept {
  const errc kind = errc_of(text);
  if (text.starts_with("ERR DB index is out of range") || text.starts_with("ERR invalid DB index"))
    return errc::database;
  return kind == errc::script ? errc::permission : kind;
}

}  // namespace ratelimit::detail
