// rediss://: whom it trusts, and what becomes of a check when the other side does not speak TLS, or nothing at all.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <ratelimit/redis/tls.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "limits.hpp"
#include "load.hpp"
#include "support/certificates.hpp"
#include "support/fake_server.hpp"
#include "support/server.hpp"
#include "support/wait.hpp"

namespace {

using namespace clusters;
using ratelimit::redis_options;
using ratelimit::tls_options;
using support::pem_files;

support::authority& ours() {
  static support::authority one;
  return one;
}

std::unique_ptr<support::server> server_with(const pem_files& own, const std::string& asks_clients = "no") {
  return std::make_unique<support::server>(
      support::server_options{.tcp = true,
                              .tls = {"--tls-cert-file", own.certificate, "--tls-key-file", own.key,
                                      "--tls-ca-cert-file", ours().ca_file(), "--tls-auth-clients", asks_clients}});
}

redis_options options(int port, const std::string& host, const tls_options& chosen) {
  return {.host = host, .port = port, .tls = ratelimit::make_tls(chosen)};
}

tls_options trusting_us() {
  return {.ca_file = ours().ca_file()};
}

std::string refusal(const tls_options& chosen) {
  try {
    ratelimit::make_tls(chosen);
  } catch (const std::invalid_argument& why) {
    const std::string text = why.what();
    return text.substr(0, text.find(": error:"));
  }
  return "accepted";
}

// Accepts connections, keeps what it hears and says nothing; or hangs up at once.
class mute_listener {
 public:
  explicit mute_listener(bool hangs_up) : hangs_up_{hangs_up} {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 10) != 0 || ::getsockname(listener_, any, &size) != 0)
      throw std::runtime_error{"cannot listen"};
    port_ = ntohs(address.sin_port);
    thread_ = std::thread{[this] { serve(); }};
  }
  mute_listener(const mute_listener&) = delete;
  mute_listener& operator=(const mute_listener&) = delete;
  ~mute_listener() {
    stopping_ = true;
    thread_.join();
    for (const int fd : open_) ::close(fd);
    ::close(listener_);
  }

  int port() const { return port_; }
  std::string heard() const {
    const std::lock_guard lock{mutex_};
    return heard_;
  }

 private:
  void serve() {
    while (!stopping_) {
      std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
      for (const int fd : open_) waiting.push_back({fd, POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), 10) <= 0) continue;
      if (waiting[0].revents != 0) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (hangs_up_) {
          ::close(fd);
        } else {
          open_.push_back(fd);
        }
      }
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents == 0) continue;
        char bytes[4096];
        const ssize_t count = ::recv(waiting[i].fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count > 0) {
          const std::lock_guard lock{mutex_};
          heard_.append(bytes, static_cast<std::size_t>(count));
        } else {
          ::close(waiting[i].fd);
          open_.erase(std::find(open_.begin(), open_.end(), waiting[i].fd));
        }
      }
    }
  }

  const bool hangs_up_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<int> open_{};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_{};
  std::string heard_{};
  std::thread thread_{};
};

}  // namespace

TEST_CASE("a certificate of whom we trust, for the name or address that we dialled") {
  const auto server = server_with(ours().issue("DNS:localhost,IP:127.0.0.1"));
  std::int64_t used = 0;
  for (const char* host : {"localhost", "127.0.0.1"}) {
    ratelimit::redis store{options(server->tls_port(), host, trusting_us())};
    for (int i = 0; i < 3; ++i) check_taken(limiter_on(store).check("a"), ++used);
  }
  ratelimit::redis hashed{
      options(server->tls_port(), "localhost", {.ca_file = ours().ca_file(), .ca_directory = ours().directory()})};
  check_taken(limiter_on(hashed).check("a"), ++used);
}

TEST_CASE("rediss:// trusts whom the system trusts") {
  const auto server = server_with(ours().issue("DNS:localhost"));
  const std::string url = "rediss://localhost:" + std::to_string(server->tls_port());
  {
    ratelimit::redis store{url};
    check_uncounted(limiter_on(store).check("a"), errc::tls);
  }
  ::setenv("SSL_CERT_FILE", ours().ca_file().c_str(), 1);
  ratelimit::redis store{url};
  ::unsetenv("SSL_CERT_FILE");
  check_taken(limiter_on(store).check("a"));
  redis_options chosen = ratelimit::parse_redis_url("rediss+sentinel://:pw@h1,h2/m");
  CHECK(chosen.mode == ratelimit::redis_mode::sentinel);
  CHECK(chosen.tls != nullptr);
  CHECK(ratelimit::parse_redis_url("rediss+cluster://h1,h2").tls != nullptr);
  CHECK(ratelimit::parse_redis_url("redis://h1").tls == nullptr);
}

TEST_CASE("expired, for another name, by somebody unknown: refused, and nothing is said in plain text") {
  const auto right = ours().issue("DNS:localhost");
  support::authority others;
  for (const auto& [name, own, host] : std::vector<std::tuple<std::string, pem_files, std::string>>{
           {"expired", ours().issue("DNS:localhost", -3600), "localhost"},
           {"another name", ours().issue("DNS:redis.example.com"), "localhost"},
           {"a name where an address is wanted", right, "127.0.0.1"},
           {"somebody else's", others.issue("DNS:localhost"), "localhost"},
       }) {
    CAPTURE(name);
    const auto server = server_with(own);
    server->reset_statistics();
    const long before = open_descriptors();
    {
      ratelimit::redis store{options(server->tls_port(), host, trusting_us())};
      check_uncounted(limiter_on(store).check("a"), errc::tls);
      check_uncounted(limiter_on(store).check("a"), errc::tls);
    }
    CHECK(open_descriptors() == before);
    CHECK(server->calls("evalsha") + server->calls("eval") == 0);
  }
  // A name may be told apart from the host.
  const auto server = server_with(ours().issue("DNS:redis.example.com"));
  ratelimit::redis store{
      options(server->tls_port(), "127.0.0.1", {.ca_file = ours().ca_file(), .server_name = "redis.example.com"})};
  check_taken(limiter_on(store).check("a"));
}

TEST_CASE("a server that asks who we are") {
  const auto server = server_with(ours().issue("DNS:localhost"), "yes");
  const pem_files own = ours().issue("DNS:client");
  ratelimit::redis known{
      options(server->tls_port(), "localhost",
              {.ca_file = ours().ca_file(), .certificate_file = own.certificate, .key_file = own.key})};
  check_taken(limiter_on(known).check("a"));
  // TLS 1.3 tells a client that it is not welcome only after its own handshake is done.
  ratelimit::redis unknown{options(server->tls_port(), "localhost", trusting_us())};
  const auto d = limiter_on(unknown).check("a");
  CHECK_FALSE(d.counted());
  CHECK((d.error == errc::tls || d.error == errc::closed));
}

TEST_CASE("a plain port, a mute one and one that hangs up: told within the deadline, and nothing is leaked") {
  support::server plain{{.tcp = true}};
  mute_listener mute{false}, rude{true};
  const long before = open_descriptors();
  {
    ratelimit::redis store{options(mute.port(), "localhost", trusting_us())};
    check_uncounted(limiter_on(store, 50ms).check("a"), errc::timeout);
    // SNI (RFC 6066): the name that we dialled.
    support::wait_until([&] { return mute.heard().find("localhost") != std::string::npos; });
  }
  {
    ratelimit::redis store{options(rude.port(), "127.0.0.1", trusting_us())};
    check_uncounted(limiter_on(store).check("a"), errc::closed);
  }
  {
    ratelimit::redis store{options(plain.port(), "localhost", trusting_us())};
    const auto d = limiter_on(store, 50ms).check("a");
    CHECK_FALSE(d.counted());
    CHECK((d.error == errc::tls || d.error == errc::closed || d.error == errc::timeout));
    CHECK(plain.calls("evalsha") + plain.calls("eval") == 0);
  }
  support::wait_until([&] { return open_descriptors() == before; });
}

TEST_CASE("many threads, large batches, and a server that hangs up between two calls") {
  const auto server = server_with(ours().issue("DNS:localhost"));
  ratelimit::redis store{options(server->tls_port(), "localhost", trusting_us())};
  const window limiter = limiter_on(store, 20s, 1'000'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, who = "user" + std::to_string(t)] {
      for (int i = 1; i <= 200; ++i) {
        const auto d = limiter.check(who);
        wrong += d.error || d.used != i ? 1 : 0;
      }
    });
  for (auto& one : threads) one.join();
  CHECK(wrong == 0);

  // Far more than one record, there and back.
  const std::string identity(400, 'x');
  std::vector<ratelimit::call> calls(5000, ratelimit::call{.identity = identity});
  std::int64_t used = 0;
  for (const auto& d : limiter.check_many(calls)) wrong += d.error || d.used != ++used ? 1 : 0;
  CHECK(wrong == 0);

  server->command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  check_taken(limiter.check("late"));
}

TEST_CASE("TLS settings that are refused, and why") {
  const pem_files own = ours().issue("DNS:localhost"), other = ours().issue("DNS:localhost");
  const std::string none = ours().directory() + "/none.pem";
  CHECK(refusal({.ca_file = none}) == "ratelimit: ca_file: " + none + " cannot be used");
  CHECK(refusal({.ca_file = own.key}) == "ratelimit: ca_file: " + own.key + " cannot be used");
  CHECK(refusal({.certificate_file = own.certificate}) ==
        "ratelimit: certificate_file, key_file: one of them is missing");
  CHECK(refusal({.key_file = own.key}) == "ratelimit: certificate_file, key_file: one of them is missing");
  CHECK(refusal({.certificate_file = none, .key_file = own.key}) ==
        "ratelimit: certificate_file: " + none + " cannot be used");
  CHECK(refusal({.certificate_file = own.certificate, .key_file = none}) ==
        "ratelimit: key_file: " + none + " cannot be used");
  CHECK(refusal({.certificate_file = own.certificate, .key_file = other.key}) ==
        "ratelimit: key_file: " + other.key + " cannot be used");
  CHECK(refusal({}) == "accepted");
  CHECK_THROWS_AS((ratelimit::redis{redis_options{.unix_path = "/tmp/s", .tls = ratelimit::make_tls()}}),
                  std::invalid_argument);
}
