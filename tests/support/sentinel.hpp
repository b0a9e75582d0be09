// A real master with replicas and the sentinels that watch over it, for one test.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server.hpp"
#include "wait.hpp"

namespace support {

struct sentinel_options {
  std::size_t replicas = 1;
  std::size_t sentinels = 3;
  std::chrono::milliseconds down_after{1000};  // a master that is silent for so long is replaced soon after
  std::string password{};                      // of the servers
  std::string sentinel_password{};             // of the sentinels
  std::vector<std::string> tls{};              // of all of them, see server_options; they speak to each other in it
};

// Throws std::runtime_error when it does not come together.
class sentinel_group {
 public:
  explicit sentinel_group(sentinel_options options = {}) : options_{std::move(options)} {
    std::vector<std::string> config{"--repl-diskless-sync-delay", "0"};
    if (!options_.password.empty()) config.insert(config.end(), {"--masterauth", options_.password});
    if (!options_.tls.empty()) config.insert(config.end(), {"--tls-replication", "yes"});
    for (std::size_t i = 0; i <= options_.replicas; ++i) {
      std::vector<std::string> own = config;
      if (i > 0) own.insert(own.end(), {"--replicaof", "127.0.0.1", std::to_string(port_of(*servers_[0]))});
      servers_.push_back(std::make_unique<server>(
          server_options{.tcp = true, .password = options_.password, .config = own, .tls = options_.tls}));
    }
    for (std::size_t i = 1; i <= options_.replicas; ++i)
      wait_until([&] { return node(i).command({"ROLE"}).items.at(3).text == "connected"; });
    for (std::size_t i = 0; i < options_.sentinels; ++i) add_sentinel();
    for (const auto& one : sentinels_)
      wait_until([&] {
        return known(*one, "slaves=" + std::to_string(options_.replicas)) &&
               known(*one, "sentinels=" + std::to_string(options_.sentinels));
      });
  }

  // Of the servers, number 0 is the master at first.
  server& node(std::size_t i) { return *servers_[i]; }
  server& sentinel(std::size_t i) { return *sentinels_[i]; }
  std::size_t size() const { return servers_.size(); }

  bool is_master(std::size_t i) { return role(i).items.at(0).text == "master"; }
  bool is_synced_replica(std::size_t i) {
    const reply told = role(i);
    return told.items.at(0).text == "slave" && told.items.at(3).text == "connected";
  }

  // All sentinels are named; the servers' password is, the sentinels' is not.
  std::string url() const {
    std::string made = options_.tls.empty() ? "redis+sentinel://" : "rediss+sentinel://";
    made += (options_.password.empty() ? "" : ":" + options_.password + "@");
    for (std::size_t i = 0; i < sentinels_.size(); ++i)
      made += (i == 0 ? "" : ",") + ("127.0.0.1:" + std::to_string(port_of(*sentinels_[i])));
    return made + "/themaster";
  }

 private:
  int port_of(const server& one) const { return options_.tls.empty() ? one.port() : one.tls_port(); }

  // A server that changes its role hangs up.
  reply role(std::size_t i) {
    try {
      return node(i).command({"ROLE"});
    } catch (const std::runtime_error&) {
      return node(i).command({"ROLE"});
    }
  }

  void add_sentinel() {
    const std::string quorum = std::to_string(options_.sentinels / 2 + 1);
    std::vector<std::string> config;
    const auto say = [&config](words told) {
      config.push_back("--sentinel");
      config.insert(config.end(), told.begin(), told.end());
    };
    say({"monitor", "themaster", "127.0.0.1", std::to_string(port_of(*servers_[0])), quorum});
    say({"down-after-milliseconds", "themaster", std::to_string(options_.down_after.count())});
    say({"failover-timeout", "themaster", "5000"});
    if (!options_.password.empty()) say({"auth-pass", "themaster", options_.password});
    if (!options_.sentinel_password.empty()) say({"sentinel-pass", options_.sentinel_password});
    if (!options_.tls.empty()) config.insert(config.end(), {"--tls-replication", "yes"});
    sentinels_.push_back(std::make_unique<server>(server_options{.tcp = true,
                                                                 .sentinel = true,
                                                                 .password = options_.sentinel_password,
                                                                 .config = std::move(config),
                                                                 .tls = options_.tls}));
  }

  static bool known(server& by, const std::string& what) {
    return by.command({"INFO", "sentinel"}).text.find(what) != std::string::npos;
  }

  sentinel_options options_;
  std::vector<std::unique_ptr<server>> servers_{};
  std::vector<std::unique_ptr<server>> sentinels_{};
};

}  // namespace support
