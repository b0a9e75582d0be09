// A cluster: each key's node is known from its slot, and found again when slots move.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/address.hpp>
#include <ratelimit/redis/ask.hpp>
#include <ratelimit/redis/batch.hpp>
#include <ratelimit/redis/command.hpp>
#include <ratelimit/redis/learned.hpp>
#include <ratelimit/redis/options.hpp>
#include <ratelimit/redis/pool.hpp>
#include <ratelimit/redis/reply.hpp>
#include <ratelimit/redis/slot.hpp>
#include <ratelimit/redis/slot_map.hpp>
#include <ratelimit/request.hpp>

namespace ratelimit::detail {

// The map of slots is learned from CLUSTER SLOTS, from any node: when first needed, after a MOVED, and after a node was
// not to be reached. A call follows MOVED and ASK at once, and waits a little and tries again after TRYAGAIN,
// CLUSTERDOWN and the like: all of them say that nothing was run. Connections to a node that the map has
// lost are dropped, as soon as nobody uses them.
class cluster {
 public:
  explicit cluster(redis_options chosen) : options_{std::move(chosen)} {}

  // One step decides keys of one slot. The key of the script, not its SHA-1, says which.
  static bool can_join(std::span<const request> group) noexcept {
    const std::uint16_t slot = slot_of(group.front().key);
    return std::all_of(group.begin(), group.end(), [slot](const request& one) { return slot_of(one.key) == slot; });
  }

  // A pipeline for each node, one after the other, each with its share of the time: one node that does not answer
  // leaves the others theirs.
  void run_many(const batch& all, const deadline& until) {
    const auto learn = [this](const map_ptr& old, const deadline& by) { return learn_map(old, by); };
    std::vector<errand> open;
    for (std::size_t i = 0; i < all.size(); ++i)
      open.push_back({.group = i, .slot = slot_of(all.group(i).front().key)});
    named_by name = named_by::sha1;
    pauses between{until};
    for (int hops = 0; !open.empty() && hops <= most_hops; ++hops) {
      const auto [map, failed] = map_.current(until, learn);
      if (!map) {
        if (hops == 0)
          for (const errand& one : open) all.fail(one.group, failed);
        return;
      }
      for (errand& one : open)
        if (!one.at) one.at = map->owner(one.slot);
      trip made{.map = map, .name = name};
      for_each_node(open, [&](std::span<errand> same, std::size_t nodes_left) {
        visit(all, same, made, nodes_left == 1 ? until : deadline{until.left() / static_cast<int>(nodes_left)});
      });
      open = std::move(made.again);
      name = made.next_name;
      if (made.pause && !between.pause()) return;
    }
  }

 private:
  struct node {
    node(const redis_options& all, redis_address where)
        : address{std::move(where)}, server{options_for(all, address)} {}

    const redis_address address;
    pool server;
  };
  using node_ptr = std::shared_ptr<node>;

  struct slot_map {
    std::vector<node_ptr> nodes{};               // never empty
    std::array<std::uint16_t, slot_count> at{};  // which of them, plus 1; 0: nobody knows

    // Any node answers for a slot that is nobody's: it says who has it, or that nobody has.
    const node_ptr& owner(std::uint16_t slot) const { return nodes[at[slot] == 0 ? 0 : at[slot] - 1u]; }
  };
  using map_ptr = learned<slot_map>::pointer;

  // A group on its way to a node.
  struct errand {
    std::size_t group;
    std::uint16_t slot;
    node_ptr at{};        // empty: the slot's owner
    bool asking = false;  // ASK: the node is still receiving the slot
  };

  // One visit of the nodes, and what is left to do after it.
  struct trip {
    map_ptr map;  // with what was heard on the way
    const named_by name;
    std::vector<errand> again{};
    named_by next_name = name;
    bool pause = false;
  };

  // Redirections that lead nowhere end there, if not at the deadline.
  static constexpr int most_hops = 16;
  static constexpr std::size_t most_asked = 4;

  // Calls what(errands, nodes left with this one) for those that go to one node in one way.
  template <class What>
  static void for_each_node(std::vector<errand>& all, What what) {
    const auto way = [](const errand& one) { return std::pair{one.at.get(), one.asking}; };
    std::stable_sort(all.begin(), all.end(), [&](const errand& a, const errand& b) { return way(a) < way(b); });
    const auto end_of = [&](auto begin) {
      return std::find_if(begin, all.end(), [&](const errand& one) { return way(one) != way(*begin); });
    };
    std::size_t count = 0;
    for (auto at = all.begin(); at != all.end(); at = end_of(at)) ++count;
    for (auto at = all.begin(); at != all.end(); --count) {
      const auto end = end_of(at);
      what(std::span<errand>{at, end}, count);
      at = end;
    }
  }

  void visit(const batch& all, std::span<errand> same, trip& now, const deadline& until) {
    const node_ptr at = same.front().at;
    const bool asking = same.front().asking;
    std::vector<std::size_t> groups;
    for (const errand& one : same) groups.push_back(one.group);
    const hearing heard = ask(at->server, all, groups, {.name = now.name, .asking = asking}, until);
    for (const refusal& one : heard.refusals) heed(one.text, same[one.index], now);
    const std::error_code broken = heard.broken;
    if (!broken) return;
    if (broken != errc::refused) return map_.doubt();
    // Nothing was sent: who has the slots now may be asked instead.
    const auto learn = [this](const map_ptr& old, const deadline& by) { return learn_map(old, by); };
    const auto [fresh, failed] = map_.anew(now.map, until, learn);
    if (!fresh) return;
    for (const errand& one : same)
      if (fresh->owner(one.slot) != at) now.again.push_back({.group = one.group, .slot = one.slot});
  }

  // What a refusal that certainly ran nothing asks for.
  void heed(std::string_view text, const errand& refused, trip& now) {
    const again kind = again_after(text);
    if (kind == again::by_source) {
      if (now.name == named_by::source) return;
      now.next_name = named_by::source;
      now.again.push_back(refused);
    } else if (const auto to = read_redirection(text, refused.at->address)) {
      correct(now.map, *to, refused);
      now.again.push_back(
          {.group = refused.group, .slot = refused.slot, .at = node_at(*now.map, to->to), .asking = to->asking});
      // Nodes that have not heard of each other yet: asking at once would not find them any wiser.
      if (now.again.back().at == refused.at) now.pause = true;
    } else if (kind == again::later || text.starts_with("READONLY")) {
      if (!text.starts_with("TRYAGAIN")) map_.doubt();
      now.pause = true;
      now.again.push_back({.group = refused.group, .slot = refused.slot});
    }
  }

  // A MOVED from the node that the map takes for the slot's owner; and the node named is kept, so that it is dialled
  // once and not for each redirection.
  void correct(map_ptr& seen, const redirection& told, const errand& refused) {
    const bool moved = !told.asking && seen->owner(told.slot) == refused.at;
    const node_ptr to = node_at(*seen, told.to);
    auto better = std::make_shared<slot_map>(*seen);
    auto found = std::find(better->nodes.begin(), better->nodes.end(), to);
    const bool is_new = found == better->nodes.end();
    if (!moved && !is_new) return;
    if (is_new) found = better->nodes.insert(found, to);
    if (moved) better->at[told.slot] = static_cast<std::uint16_t>(found - better->nodes.begin() + 1);
    seen = map_.correct(seen, std::move(better), moved);
  }

  node_ptr node_at(const slot_map& map, const redis_address& where) const {
    for (const node_ptr& one : map.nodes)
      if (one->address == where) return one;
    return std::make_shared<node>(options_, where);
  }

  // The nodes known and those given are asked in turn, each with its share of the time, a few each time, from the one
  // that answered last.
  learned<slot_map>::news learn_map(const map_ptr& old, const deadline& until) {
    std::vector<node_ptr> any;
    if (old) any = old->nodes;
    const std::size_t known = any.size();
    const std::size_t count = known + options_.nodes.size();
    const std::size_t start = last_that_knew_;
    const std::size_t most = std::min(count, most_asked);
    std::error_code failed;
    for (std::size_t i = 0; i < most; ++i) {
      const std::size_t which = (start + i) % count;
      const node_ptr one = which < known ? any[which] : std::make_shared<node>(options_, options_.nodes[which - known]);
      std::vector<slot_range> ranges;
      last_that_knew_ = which;
      failed = ask_slots(*one, ranges, deadline{until.left() / static_cast<int>(most - i)});
      if (!failed) return {.known = map_of(ranges, old, one)};
    }
    last_that_knew_ = start + most;
    return {.failed = failed};
  }

  static std::error_code ask_slots(node& from, std::vector<slot_range>& ranges, const deadline& until) {
    std::string question;
    append_command(question, std::array<std::string_view, 2>{"CLUSTER", "SLOTS"});
    std::error_code failed;
    const std::error_code broken = from.server.call(question, 1, until, [&](const redisReply& got) {
      if (is_error(got)) {
        const errc kind = errc_of(text_of(got));
        failed = kind == errc::script ? errc::cluster : kind;  // ERR: it is no cluster's node
      } else if (auto read = read_slots(got, from.address)) {
        ranges = std::move(*read);
        if (ranges.empty()) failed = errc::cluster;
      } else {
        failed = errc::protocol;
      }
      return failed;
    });
    return broken ? broken : failed;
  }

  map_ptr map_of(const std::vector<slot_range>& ranges, const map_ptr& old, const node_ptr& asked) const {
    auto made = std::make_shared<slot_map>();
    for (const slot_range& range : ranges) {
      auto found = std::find_if(made->nodes.begin(), made->nodes.end(),
                                [&](const node_ptr& one) { return one->address == range.master; });
      if (found == made->nodes.end())
        found = made->nodes.insert(found, asked->address == range.master ? asked
                                          : old                          ? node_at(*old, range.master)
                                                : std::make_shared<node>(options_, range.master));
      const auto at = static_cast<std::uint16_t>(found - made->nodes.begin() + 1);
      for (std::size_t slot = range.first; slot <= range.last; ++slot) made->at[slot] = at;
    }
    return made;
  }

  redis_options options_;
  learned<slot_map> map_{};
  std::atomic<std::size_t> last_that_knew_{0};
};

}  // namespace ratelimit::detail
