// A stream socket whose every step is back by a deadline, whatever the peer, the network and signals do.
#pragma once

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/redis/options.hpp>

namespace ratelimit::detail {

// One user at a time, but close(), which a forked child may call on its copy whatever the parent was doing with it.
// Not hiredis' own connect, which tries a name's first address only and makes descriptors that a program started in the
// meantime inherits; nor its read and write, whose timeouts begin anew with each signal and each byte.
class socket {
 public:
  socket() = default;
  socket(const socket&) = delete;
  socket& operator=(const socket&) = delete;
  ~socket() { close(); }

  bool is_open() const noexcept { return fd_.load(std::memory_order_relaxed) >= 0; }

  void close() noexcept {
    if (const int fd = fd_.exchange(-1); fd >= 0) ::close(fd);
  }

  std::error_code connect(const redis_options& to, const deadline& until) {
    return to.unix_path.empty() ? connect_tcp(to, until) : connect_unix(to.unix_path, until);
  }

  // True when the peer has neither closed an idle connection nor said anything on it.
  bool is_quiet() const noexcept {
    char byte;
    return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }

  // Takes off `bytes` what went out, which is not all of them when there is an error. Past the deadline it tries once.
  std::error_code send(std::string_view& bytes, const deadline& until) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_for(POLLOUT, until)) return errc::timeout;
      } else if (errno != EINTR) {
        return errc::closed;
      }
    }
    return {};
  }

  // Waits for bytes, and puts what has come into `into`.
  std::error_code receive(char* into, std::size_t room, std::size_t& got, const deadline& until) {
    // Most answers come at once, and take one system call where there is time enough to wait in it.
    for (bool may_block = until.left() > enough_to_block;; may_block = false) {
      if (!may_block && !wait_for(POLLIN, until)) return errc::timeout;
      const ssize_t count = ::recv(fd_, into, room, may_block ? 0 : MSG_DONTWAIT);
      if (count > 0) {
        got = static_cast<std::size_t>(count);
        return {};
      }
      if (count == 0) return errc::closed;
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return errc::closed;
    }
  }

 private:
  // What is ready by now counts also when the time is over. A signal does not make the wait longer.
  bool wait_for(short events, const deadline& until) const noexcept {
    for (;;) {
      pollfd waiting{fd_, events, 0};
      const auto left = until.left();
      const timespec most{static_cast<std::time_t>(left.count() / 1'000'000),
                          static_cast<long>(left.count() % 1'000'000 * 1000)};
      const int ready = ::ppoll(&waiting, 1, &most, nullptr);
      if (ready > 0) return true;
      if (ready == 0 && until.passed()) return false;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

  std::error_code connect_unix(const std::string& path, const deadline& until) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    return connect_to(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), size, until);
  }

  std::error_code connect_tcp(const redis_options& to, const deadline& until) {
    const std::string port = std::to_string(to.port);
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (::getaddrinfo(to.host.c_str(), port.c_str(), &wanted, &found) != 0) {
      wanted.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
      if (::getaddrinfo(to.host.c_str(), port.c_str(), &wanted, &found) != 0) return errc::refused;
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{found, ::freeaddrinfo};
    int untried = 0;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) ++untried;
    std::error_code failed = errc::refused;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next, --untried) {
      // An address that swallows everything leaves the others their share of the time.
      failed = connect_to(one->ai_family, one->ai_addr, one->ai_addrlen, deadline{until.left() / untried});
      if (!failed) break;
    }
    if (!failed) set_tcp_options();
    return failed;
  }

  std::error_code connect_to(int family, const sockaddr* address, socklen_t size, const deadline& until) {
    close();
    fd_ = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!is_open()) return errc::refused;
    std::error_code failed;
    // A Unix socket's full backlog is EAGAIN, with nothing to wait for but time.
    while (::connect(fd_, address, size) != 0) {
      if (errno == EAGAIN && !until.passed()) {
        ::poll(nullptr, 0, 1);
        continue;
      }
      failed = errno == EAGAIN                          ? errc::timeout
               : errno == EINPROGRESS || errno == EINTR ? finish_connecting(until)
                                                        : make_error_code(errc::refused);
      break;
    }
    if (!failed && !let_receive_block()) failed = errc::refused;
    if (failed) close();
    return failed;
  }

  // For a tick of the kernel's clock or two, each 10 ms at most; a signal ends the wait. Every other call says itself
  // that it does not block.
  static constexpr std::chrono::milliseconds enough_to_block{20};
  bool let_receive_block() const noexcept {
    const timeval tick{0, 1000};
    return ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) == 0 && ::fcntl(fd_, F_SETFL, 0) == 0;
  }

  std::error_code finish_connecting(const deadline& until) const {
    if (!wait_for(POLLOUT, until)) return errc::timeout;
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      return error == ETIMEDOUT ? errc::timeout : errc::refused;
    return {};
  }

  // Nagle's wait would delay every check. A peer that vanished without a word is found within half a minute: by
  // keepalive where nothing is under way, by the other timeout, in milliseconds, where what was sent is not
  // acknowledged (tcp(7)).
  void set_tcp_options() const noexcept {
    const auto set = [this](int level, int name, int value) { ::setsockopt(fd_, level, name, &value, sizeof value); };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
  }

  std::atomic<int> fd_{-1};
};

}  // namespace ratelimit::detail
