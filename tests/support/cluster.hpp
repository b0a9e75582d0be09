// A real cluster for one test: each node a server of its own, stopped and removed with the object.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server.hpp"
#include "wait.hpp"

namespace support {

// Throws std::runtime_error when it does not come together.
class cluster {
 public:
  // The masters share the slots in equal parts; master i has node i + masters as a replica, where there are replicas.
  // A node that is silent for `node_timeout` is replaced soon after. With `tls`, see server_options, nodes speak
  // to each other in it, and url() is for clients that do.
  cluster(std::size_t masters, bool with_replicas, std::chrono::milliseconds node_timeout,
          std::vector<std::string> more = {}, std::string host = "127.0.0.1", std::vector<std::string> tls = {})
      : host_{std::move(host)},
        tls_{std::move(tls)},
        config_{"--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                std::to_string(node_timeout.count()),
                "--cluster-replica-validity-factor",
                "0",
                "--repl-diskless-sync-delay",
                "0"} {
    config_.insert(config_.end(), more.begin(), more.end());
    if (!tls_.empty()) config_.insert(config_.end(), {"--tls-cluster", "yes"});
    for (std::size_t i = 0; i < masters * (with_replicas ? 2 : 1); ++i) begin_node();
    for (std::size_t i = 0; i < masters; ++i) {
      const std::size_t first = 16384 * i / masters, last = 16384 * (i + 1) / masters - 1;
      demand_ok(i, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
    }
    wait_until_acquainted();
    for (std::size_t i = masters; i < nodes_.size(); ++i) demand_ok(i, {"CLUSTER", "REPLICATE", id(i - masters)});
    wait_until_whole();
  }

  std::size_t size() const { return nodes_.size(); }
  server& node(std::size_t i) { return *nodes_[i]; }
  std::string id(std::size_t i) { return node(i).command({"CLUSTER", "MYID"}).text; }

  // All nodes are named.
  std::string url() const {
    std::string made = tls_.empty() ? "redis+cluster://" : "rediss+cluster://";
    const std::string host = host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]";
    for (const auto& one : nodes_)
      made += (made.back() == '/' ? "" : ",") + (host + ":" + std::to_string(port_of(*one)));
    return made;
  }

  // A master without slots. Returns its number.
  std::size_t add_node() {
    const std::size_t added = begin_node();
    wait_until_acquainted();
    return added;
  }

  // The node that a node takes for the owner of `slot`.
  std::size_t owner(int slot, std::size_t asked = 0) {
    for (const reply& range : node(asked).command({"CLUSTER", "SLOTS"}).items) {
      if (slot < range.items.at(0).number || slot > range.items.at(1).number) continue;
      for (std::size_t i = 0; i < nodes_.size(); ++i)
        if (node(i).port() == range.items.at(2).items.at(1).number) return i;
    }
    throw std::runtime_error{"nobody owns slot " + std::to_string(slot)};
  }

  // Moves a slot in the four steps of the cluster specification; `between()` is called while it is half moved.
  template <class Between>
  void move_slot(int slot, std::size_t to, Between between) {
    const std::size_t from = owner(slot);
    const std::string number = std::to_string(slot);
    demand_ok(to, {"CLUSTER", "SETSLOT", number, "IMPORTING", id(from)});
    demand_ok(from, {"CLUSTER", "SETSLOT", number, "MIGRATING", id(to)});
    for (bool first = true;; first = false) {
      const reply keys = node(from).command({"CLUSTER", "GETKEYSINSLOT", number, "10"});
      if (keys.items.empty()) break;
      for (const reply& key : keys.items)
        node(from).command({"MIGRATE", host_, std::to_string(port_of(node(to))), key.text, "0", "5000"});
      if (first) between();
    }
    demand_ok(to, {"CLUSTER", "SETSLOT", number, "NODE", id(to)});
    demand_ok(from, {"CLUSTER", "SETSLOT", number, "NODE", id(to)});
  }

  // Until all nodes that run call the cluster whole.
  void wait_until_whole() {
    const std::chrono::seconds within{180};
    for (const auto& one : nodes_) {
      if (one->pid() <= 0) continue;
      wait_until(
          [&] {
            return one->command({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos;
          },
          within);
      wait_until(
          [&] {
            const reply role = one->command({"ROLE"});
            return role.items.at(0).text == "master" || role.items.at(3).text == "connected";
          },
          within);
    }
  }

 private:
  std::size_t begin_node() {
    nodes_.push_back(
        std::make_unique<server>(server_options{.tcp = true, .host = host_, .config = config_, .tls = tls_}));
    const std::size_t added = nodes_.size() - 1;
    demand_ok(added, {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(nodes_.size())});
    for (std::size_t i = 0; i < added; ++i)
      demand_ok(added, {"CLUSTER", "MEET", host_, std::to_string(port_of(node(i)))});
    return added;
  }

  void wait_until_acquainted() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      wait_until([&] { return known_to(i) == nodes_.size(); }, std::chrono::seconds{180});
  }

  int port_of(const server& one) const { return tls_.empty() ? one.port() : one.tls_port(); }

  std::size_t known_to(std::size_t i) {
    std::size_t known = 0;
    const std::string text = node(i).command({"CLUSTER", "NODES"}).text;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) ++known;
    return text.find("handshake") == std::string::npos ? known : 0;
  }

  void demand_ok(std::size_t i, const words& said) {
    const reply answer = node(i).command(said);
    if (answer.text != "OK") throw std::runtime_error{said.at(1) + ": " + answer.text};
  }

  std::string host_;
  std::vector<std::string> tls_;
  std::vector<std::string> config_;
  std::vector<std::unique_ptr<server>> nodes_{};
};

}  // namespace support
