// What a cluster tells of itself, read: CLUSTER SLOTS and redirections. Pure.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/redis/address.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/redis/slot.hpp>

namespace ratelimit::detail {

struct slot_range {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  redis_address master{};

  bool operator==(const slot_range&) const = default;
};

// One node of CLUSTER SLOTS: host, port, and more that later versions added and will add. A host that is null or empty
// is that of the node asked: it does not know how it is reached.
inline std::optional<redis_address> read_node(const redisReply& from, const redis_address& asked) {
  if (from.type != REDIS_REPLY_ARRAY || from.elements < 2) return std::nullopt;
  const redisReply& host = *from.element[0];
  const redisReply& port = *from.element[1];
  if (port.type != REDIS_REPLY_INTEGER || !is_port(port.integer)) return std::nullopt;
  const int number = static_cast<int>(port.integer);
  if (host.type == REDIS_REPLY_NIL) return redis_address{asked.host, number};
  if (host.type != REDIS_REPLY_STRING) return std::nullopt;
  const std::string_view name = text_of(host);
  return redis_address{name.empty() ? asked.host : std::string{name}, number};
}

// The reply to CLUSTER SLOTS: [first slot, last slot, master, replicas...] for each range (Redis documentation, CLUSTER
// SLOTS). Empty when it is anything else, or tells of no slot. A host "?", a node whose name nobody knows, serves
// nothing.
inline std::optional<std::vector<slot_range>> read_slots(const redisReply& from, const redis_address& asked) {
  if (from.type != REDIS_REPLY_ARRAY || from.elements == 0) return std::nullopt;
  const auto is_slot = [](const redisReply& one) {
    return one.type == REDIS_REPLY_INTEGER && one.integer >= 0 && one.integer < static_cast<long long>(slot_count);
  };
  std::vector<slot_range> ranges;
  for (std::size_t i = 0; i < from.elements; ++i) {
    const redisReply& one = *from.element[i];
    if (one.type != REDIS_REPLY_ARRAY || one.elements < 3 || !is_slot(*one.element[0]) || !is_slot(*one.element[1]))
      return std::nullopt;
    auto master = read_node(*one.element[2], asked);
    if (!master) return std::nullopt;
    if (master->host == "?") continue;
    ranges.push_back({static_cast<std::uint16_t>(integer_at(one, 0)), static_cast<std::uint16_t>(integer_at(one, 1)),
                      std::move(*master)});
  }
  return ranges;
}

struct redirection {
  bool asking = false;  // ASK: this once; otherwise MOVED: from now on
  std::uint16_t slot = 0;
  redis_address to{};

  bool operator==(const redirection&) const = default;
};

// "MOVED 3999 192.0.2.1:6381" or "ASK ...", as `asked` replied it: without a host it means its own. The port stands
// after the last colon: an IPv6 address has no brackets there.
inline std::optional<redirection> read_redirection(std::string_view text, const redis_address& asked) {
  redirection made{.asking = text.starts_with("ASK ")};
  if (!made.asking && !text.starts_with("MOVED ")) return std::nullopt;
  text.remove_prefix(text.find(' ') + 1);
  const std::string_view number = text.substr(0, text.find(' '));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon <= number.size()) return std::nullopt;
  const auto slot = whole_number(number);
  const auto port = port_number(text.substr(colon + 1));
  if (!slot || *slot >= static_cast<int>(slot_count) || !port) return std::nullopt;
  std::string_view host = text.substr(number.size() + 1, colon - number.size() - 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "?") return std::nullopt;
  made.slot = static_cast<std::uint16_t>(*slot);
  made.to = {std::string{host.empty() ? std::string_view{asked.host} : host}, *port};
  return made;
}

}  // namespace ratelimit::detail
