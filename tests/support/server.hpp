// A real server for one test: in a directory of its own, stopped and removed with the object.
#pragma once

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "reply.hpp"

namespace support {

struct server_options {
  std::string binary = "redis-server";
  bool tcp = false;                   // also on a free port of `host`; the Unix socket is always there
  std::string host = "127.0.0.1";     // or ::1
  bool sentinel = false;              // a sentinel, which keeps what it learns in a file of its own
  std::string password{};             // of the default user; the observer logs in with it
  std::vector<std::string> config{};  // more arguments: {"--maxmemory", "1mb"}
  std::vector<std::string> tls{};     // arguments of a TLS port too, 10,000 above the plain one; empty: there is none
};

// Not thread-safe, but for signals (freeze, thaw) and for other threads that talk to the server by themselves.
// Throws std::runtime_error when the server does not come up: a missing binary must never look like a passed test.
class server {
 public:
  explicit server(server_options options = {}) : options_{std::move(options)} {
    std::string pattern = (std::filesystem::temp_directory_path() / "ratelimit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail("mkdtemp " + pattern);
    directory_ = pattern;
    if (options_.tcp) port_ = free_port(options_.host);
    try {
      start();
    } catch (...) {
      remove();
      throw;
    }
  }

  server(const server&) = delete;
  server& operator=(const server&) = delete;

  ~server() {
    stop();
    remove();
  }

  const std::string& directory() const { return directory_; }
  std::string socket_path() const { return directory_ + "/socket"; }
  int port() const { return port_; }
  int tls_port() const { return port_ + 10000; }
  pid_t pid() const { return pid_; }

  // Over the Unix socket; with the password where there is one.
  std::string url() const { return "unix://" + user_info() + socket_path(); }
  std::string tcp_url() const { return "redis://" + user_info() + "127.0.0.1:" + std::to_string(port_); }

  // Starts it (again), on the same addresses, and waits until it answers.
  void start() {
    int told[2];
    if (::pipe2(told, O_CLOEXEC) != 0) fail("pipe2");
    words line = command_line();
    std::vector<char*> arguments;
    for (auto& word : line) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      // Dies with the thread that started it: a test that crashes leaves no server behind.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) ::execvp(arguments[0], arguments.data());
      const int why = errno;
      if (::write(told[1], &why, sizeof why) < 0) ::_exit(126);
      ::_exit(127);
    }
    ::close(told[1]);
    int why = 0;
    const bool failed = ::read(told[0], &why, sizeof why) == sizeof why;
    ::close(told[0]);
    if (failed) {
      reap();
      errno = why;
      fail("cannot run " + options_.binary);
    }
    wait_until_it_answers();
  }

  // SIGTERM, and SIGKILL after 5 s.
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGTERM);
    for (int i = 0; i < 500; ++i) {
      if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
        forget();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    kill();
  }

  // kill -9
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    reap();
  }

  void freeze() const { ::kill(pid_, SIGSTOP); }
  void thaw() const { ::kill(pid_, SIGCONT); }

  // One command over the observer's own connection, which is dialled again when it broke. An error reply is a value.
  reply command(const words& said) {
    if (observer_ && !alive(*observer_)) observer_.reset();
    if (!observer_) observer_ = dial();
    auto answer = send(*observer_, said);
    if (!answer) {
      const std::string text = observer_->errstr;
      observer_.reset();
      throw std::runtime_error{"the observer's " + said.front() + " got no answer: " + text};
    }
    return reply::from(*answer);
  }

  // How often the server ran `name` ("evalsha", "client|setname"), refused calls not included.
  long long calls(const std::string& name) {
    return field(command({"INFO", "commandstats"}).text, "cmdstat_" + name + ":calls=");
  }
  // A number of INFO: info("total_connections_received").
  long long info(const std::string& name) { return field(command({"INFO", "all"}).text, name + ":"); }
  void reset_statistics() { command({"CONFIG", "RESETSTAT"}); }

 private:
  struct free_context {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  struct free_reply {
    void operator()(redisReply* raw) const { freeReplyObject(raw); }
  };
  using context = std::unique_ptr<redisContext, free_context>;
  using raw_reply = std::unique_ptr<redisReply, free_reply>;

  [[noreturn]] static void fail(const std::string& what) {
    throw std::system_error{errno, std::generic_category(), what};
  }

  static long long field(const std::string& text, const std::string& start) {
    const auto found = ("\n" + text).find("\n" + start);
    return found == std::string::npos ? 0 : std::stoll(text.substr(found + start.size()));
  }

  // Below the ports the kernel hands out, and with room for a cluster's bus 10,000 above.
  static int free_port(const std::string& host) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICHOST;
    if (::getaddrinfo(host.c_str(), "0", &wanted, &found) != 0) throw std::runtime_error{host + " is no address"};
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address{found, ::freeaddrinfo};
    if (!is_free(*address, 0))
      throw std::runtime_error{"nothing can listen at " + host + ": this machine has no " + host};
    std::minstd_rand random{std::random_device{}()};
    for (int i = 0; i < 1000; ++i) {
      const int port = 20000 + static_cast<int>(random() % 10000);
      if (is_free(*address, port) && is_free(*address, port + 10000)) return port;
    }
    throw std::runtime_error{"no free port"};
  }

  static bool is_free(const addrinfo& at, int port) {
    const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // The port stands at the same place in both kinds of address.
    reinterpret_cast<sockaddr_in*>(at.ai_addr)->sin_port = htons(static_cast<std::uint16_t>(port));
    const bool bound = ::bind(fd, at.ai_addr, at.ai_addrlen) == 0;
    ::close(fd);
    return bound;
  }

  std::string user_info() const { return options_.password.empty() ? "" : ":" + options_.password + "@"; }

  words command_line() const {
    words line{options_.binary};
    if (options_.sentinel) {
      std::ofstream{directory_ + "/sentinel.conf"} << '\n';
      line.insert(line.end(), {directory_ + "/sentinel.conf", "--sentinel"});
    }
    line.insert(line.end(), {"--port", std::to_string(port_), "--bind", options_.host, "--unixsocket", socket_path(),
                             "--dir", directory_, "--logfile", log_path(), "--save", "", "--appendonly", "no"});
    if (!options_.password.empty()) line.insert(line.end(), {"--requirepass", options_.password});
    line.insert(line.end(), options_.config.begin(), options_.config.end());
    if (!options_.tls.empty()) line.insert(line.end(), {"--tls-port", std::to_string(tls_port())});
    line.insert(line.end(), options_.tls.begin(), options_.tls.end());
    return line;
  }

  std::string log_path() const { return directory_ + "/log"; }

  void wait_until_it_answers() {
    for (int i = 0; i < 1000; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        forget();
        std::ostringstream log;
        log << std::ifstream{log_path()}.rdbuf();
        throw std::runtime_error{options_.binary + " ended with status " + std::to_string(status) + ":\n" + log.str()};
      }
      try {
        auto made = dial();
        const auto answer = send(*made, {"PING"});
        if (answer && std::string_view{answer->str, answer->len}.substr(0, 7) != "LOADING") {
          observer_ = std::move(made);
          return;
        }
      } catch (const std::runtime_error&) {  // not listening yet
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    kill();
    throw std::runtime_error{options_.binary + " does not answer"};
  }

  context dial() const {
    context made{redisConnectUnixWithTimeout(socket_path().c_str(), {5, 0})};
    if (!made || made->err != 0) throw std::runtime_error{"cannot connect to " + socket_path()};
    redisSetTimeout(made.get(), {5, 0});
    if (!options_.password.empty()) send(*made, {"AUTH", options_.password});
    return made;
  }

  static bool alive(const redisContext& link) {
    char byte;
    const auto got = ::recv(link.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
  }

  // hiredis writes so that a link which the server has closed raises SIGPIPE. It is kept from this thread alone, and
  // while this lives: what the library does must raise none.
  class without_sigpipe {
   public:
    without_sigpipe() {
      ::sigemptyset(&it_);
      ::sigaddset(&it_, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &it_, &before_);
    }
    without_sigpipe(const without_sigpipe&) = delete;
    without_sigpipe& operator=(const without_sigpipe&) = delete;
    ~without_sigpipe() {
      const timespec at_once{};
      while (::sigtimedwait(&it_, nullptr, &at_once) > 0) {
      }
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

   private:
    sigset_t it_{};
    sigset_t before_{};
  };

  static raw_reply send(redisContext& link, const words& said) {
    const without_sigpipe quiet;
    std::vector<const char*> pointers;
    std::vector<std::size_t> lengths;
    for (const auto& word : said) {
      pointers.push_back(word.data());
      lengths.push_back(word.size());
    }
    return raw_reply{static_cast<redisReply*>(
        redisCommandArgv(&link, static_cast<int>(said.size()), pointers.data(), lengths.data()))};
  }

  void forget() {
    pid_ = 0;
    observer_.reset();
  }

  void reap() {
    ::waitpid(pid_, nullptr, 0);
    forget();
  }

  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  server_options options_;
  std::string directory_;
  int port_ = 0;
  pid_t pid_ = 0;
  context observer_;
};

}  // namespace support
