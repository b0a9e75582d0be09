// A server that answers what a test tells it to, to see what a client makes of that.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reply.hpp"

namespace support {

// What is sent back for one command: these very bytes.
struct bytes {
  std::string text{};
  bool then_close = false;
  std::chrono::milliseconds before_each_byte{0};

  bytes(const char* sent) : text{sent} {}
  bytes(std::string sent, bool hang_up = false, std::chrono::milliseconds pause = {})
      : text{std::move(sent)}, then_close{hang_up}, before_each_byte{pause} {}
};

enum class listens : bool { on_unix_socket, on_tcp };

// Listens on a Unix socket, or on a port of 127.0.0.1. One thread serves all connections in turn.
class fake_server {
 public:
  // Called for each command that has come whole.
  using script = std::function<bytes(const words&)>;

  explicit fake_server(script answer, listens where = listens::on_unix_socket) : answer_{std::move(answer)} {
    std::string pattern = (std::filesystem::temp_directory_path() / "ratelimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    directory_ = pattern;
    const bool listening = where == listens::on_tcp ? listen_on_tcp() : listen_on_unix_socket();
    if (!listening) throw std::runtime_error{"a fake server cannot listen"};
    thread_ = std::thread{[this] { serve(); }};
  }
  fake_server(const fake_server&) = delete;
  fake_server& operator=(const fake_server&) = delete;
  ~fake_server() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
    for (const auto& [fd, text] : clients_) ::close(fd);
    std::filesystem::remove_all(directory_);
  }

  std::string socket_path() const { return directory_ + "/socket"; }
  int port() const { return port_; }
  std::string url() const { return "unix://" + socket_path(); }

  // Every command so far, in the order in which they came.
  std::vector<words> heard() const {
    const std::lock_guard lock{mutex_};
    return heard_;
  }
  // The first word of each.
  words commands() const {
    words out;
    for (const words& one : heard()) out.push_back(one.front());
    return out;
  }
  int connections() const { return connections_; }  // accepted so far
  int open_connections() const { return open_; }

 private:
  bool listen_on_unix_socket() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_path().c_str(), sizeof address.sun_path - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
           ::listen(listener_, 100) == 0;
  }

  bool listen_on_tcp() {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 100) != 0 || ::getsockname(listener_, any, &size) != 0)
      return false;
    port_ = ntohs(address.sin_port);
    return true;
  }

  void serve() {
    while (!stopping_) {
      std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
      for (const auto& [fd, text] : clients_) waiting.push_back({fd, POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), 10) <= 0) continue;
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents != 0) read(waiting[i].fd);
      }
      if (waiting[0].revents != 0) {
        clients_[::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)];
        ++connections_;
        ++open_;
      }
    }
  }

  void read(int fd) {
    char part[65536];
    const ssize_t count = ::recv(fd, part, sizeof part, 0);
    bool open = count > 0;
    std::string& text = clients_[fd];
    if (open) text.append(part, static_cast<std::size_t>(count));
    for (words one; open && take_command(text, one);) {
      {
        const std::lock_guard lock{mutex_};
        heard_.push_back(one);
      }
      open = send(fd, answer_(one));
    }
    if (!open) {
      ::close(fd);
      clients_.erase(fd);
      --open_;
    }
  }

  bool send(int fd, const bytes& out) const {
    const std::size_t step = out.before_each_byte.count() > 0 ? 1 : out.text.size();
    for (std::size_t at = 0; at < out.text.size() && !stopping_; at += step) {
      std::this_thread::sleep_for(out.before_each_byte);
      if (::send(fd, out.text.data() + at, step, MSG_NOSIGNAL) < 0) return false;
    }
    return !out.then_close;
  }

  // Takes one whole command off the front of `text`.
  static bool take_command(std::string& text, words& out) {
    out.clear();
    std::size_t at = 0;
    std::size_t count = 0;
    if (!number(text, '*', at, count)) return false;
    for (; count > 0; --count) {
      std::size_t size = 0;
      if (!number(text, '$', at, size) || text.size() < at + size + 2) return false;
      out.push_back(text.substr(at, size));
      at += size + 2;
    }
    text.erase(0, at);
    return true;
  }

  static bool number(const std::string& text, char kind, std::size_t& at, std::size_t& out) {
    const std::size_t end = text.find("\r\n", at);
    if (end == std::string::npos) return false;
    if (text[at] != kind) throw std::logic_error{"not a command: " + text};
    out = std::stoul(text.substr(at + 1, end - at - 1));
    at = end + 2;
    return true;
  }

  script answer_;
  std::string directory_;
  int listener_ = -1;
  int port_ = 0;
  std::map<int, std::string> clients_{};  // descriptor and what has come of a command
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::atomic<int> open_{0};
  mutable std::mutex mutex_{};
  std::vector<words> heard_{};
  std::thread thread_{};
};

}  // namespace support
