// Between a client and a real server: forwards what both say, or does not.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace support {

enum class tamper {
  nothing,
  lose_replies,   // commands arrive, answers do not
  halve_replies,  // the first half of an answer, and then nothing more on that connection
  garble_replies,
  reset_before,  // a connection on which a command comes is reset, and the command dropped
  reset_after,   // the command is carried out; instead of its answer comes a reset
  stall,         // nothing is read or accepted
};

// Listens on 127.0.0.1. One thread serves all connections.
class fault_proxy {
 public:
  explicit fault_proxy(std::string server_socket) : server_socket_{std::move(server_socket)} {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 100) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error{errno, std::generic_category(), "the proxy cannot listen"};
    port_ = ntohs(address.sin_port);
    thread_ = std::thread{[this] { serve(); }};
  }
  fault_proxy(const fault_proxy&) = delete;
  fault_proxy& operator=(const fault_proxy&) = delete;
  ~fault_proxy() {
    stopping_ = true;
    thread_.join();
    for (const pair& one : pairs_) close(one);
    ::close(listener_);
  }

  int port() const { return port_; }
  // From now on, for all connections.
  void set(tamper how) { how_ = how; }
  // How often something was lost, garbled or reset.
  int tampered() const { return tampered_; }
  int connections() const { return connections_; }  // accepted so far

 private:
  struct pair {
    int client;
    int server;
    bool mute = false;  // half an answer was sent on it
  };

  void serve() {
    while (!stopping_) {
      if (how_ == tamper::stall) {
        ::poll(nullptr, 0, 5);
        continue;
      }
      std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
      for (const pair& one : pairs_) {
        waiting.push_back({one.client, POLLIN, 0});
        waiting.push_back({one.server, POLLIN, 0});
      }
      if (::poll(waiting.data(), waiting.size(), 5) <= 0) continue;
      std::vector<pair> left;
      for (std::size_t i = 0; i < pairs_.size(); ++i) {
        pair& one = pairs_[i];
        const bool open = (waiting[1 + 2 * i].revents == 0 || from_client(one)) &&
                          (waiting[2 + 2 * i].revents == 0 || from_server(one));
        if (open) {
          left.push_back(one);
        } else {
          close(one);
        }
      }
      pairs_ = std::move(left);
      if (waiting[0].revents != 0) accept();
    }
  }

  void accept() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++connections_;
    const int on = 1;
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, server_socket_.c_str(), sizeof address.sun_path - 1);
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      pairs_.push_back({client, server});
    } else {
      ::close(client);
      ::close(server);
    }
  }

  bool from_client(const pair& one) {
    if (how_ != tamper::reset_before) return forward(one.client, one.server, [](std::string&) {});
    ++tampered_;
    return false;
  }

  bool from_server(pair& one) {
    const tamper how = how_;
    if (how == tamper::reset_after) {
      ++tampered_;
      return false;
    }
    return forward(one.server, one.client, [&](std::string& text) {
      if (one.mute) return text.clear();
      if (how == tamper::nothing || how == tamper::reset_before) return;
      ++tampered_;
      if (how == tamper::lose_replies) text.clear();
      if (how == tamper::halve_replies) text.resize(text.size() / 2);
      if (how == tamper::garble_replies) text = "*2\r\n$5\r\nhello\r\n?????\r\n";
      one.mute = true;
    });
  }

  template <class Change>
  static bool forward(int from, int to, const Change& change) {
    char part[65536];
    const ssize_t count = ::recv(from, part, sizeof part, 0);
    if (count <= 0) return false;
    std::string text(part, static_cast<std::size_t>(count));
    change(text);
    return text.empty() || ::send(to, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  // The client's end with a reset (RST).
  static void close(const pair& one) {
    const linger at_once{1, 0};
    ::setsockopt(one.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(one.client);
    ::close(one.server);
  }

  std::string server_socket_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<pair> pairs_{};
  std::atomic<tamper> how_{tamper::nothing};
  std::atomic<bool> stopping_{false};
  std::atomic<int> tampered_{0};
  std::atomic<int> connections_{0};
  std::thread thread_{};
};

}  // namespace support
