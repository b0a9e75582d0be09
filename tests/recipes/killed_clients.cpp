// Clients that die in the middle of a call.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "rows.hpp"

namespace {

using namespace recipes;

// A process that calls without pause, until it is killed.
class caller {
 public:
  explicit caller(const std::string& url) : pid_{::fork()} {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ratelimit::redis store{url};
    const ratelimit::fixed_window limiter{
        store,
        {.name = "killed", .limit = 5, .window = 100ms, .on_failure = ratelimit::fail::closed, .deadline = patience}};
    for (int i = 0;; ++i) limiter.check(std::to_string(i % 7));
  }
  caller(caller&& other) noexcept : pid_{std::exchange(other.pid_, 0)} {}
  caller& operator=(caller&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~caller() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace

// Four processes, ten windows and more, and after each thousand calls one of them is killed with SIGKILL.
TEST_CASE("No key is left without a lifetime by a client that was killed", "[recipes]") {
  auto& server = empty_server();
  server.reset_statistics();
  std::vector<caller> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(server.url());
  std::set<std::string> seen;
  for (std::size_t round = 1; round <= 10; ++round) {
    while (server.calls("evalsha") < 1000 * static_cast<long long>(round)) ::usleep(1000);
    for (const auto& key : server.command({"KEYS", "*"}).items) {
      seen.insert(key.text);
      CHECK(server.command({"PTTL", key.text}).number != -1);
    }
    callers[round % 4] = caller{server.url()};
  }
  callers.clear();
  for (const auto& key : server.command({"KEYS", "*"}).items) CHECK(server.command({"PTTL", key.text}).number != -1);
  for (const std::string& key : seen) CHECK(key.starts_with("ratelimit:window:killed:{"));
  CHECK(seen.size() <= 7);
  CHECK(seen.size() >= 1);
}
