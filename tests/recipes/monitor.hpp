// What the server was told, word for word, and what its scripts did: Redis' MONITOR.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/server.hpp"

namespace recipes {

// A command as MONITOR prints it, taken apart; words stay escaped as the server shows them.
struct seen_command {
  bool by_script = false;
  std::vector<std::string> words{};

  const std::string& name() const { return words.front(); }
};

class monitor {
 public:
  explicit monitor(support::server& server)
      : server_{server}, link_{redisConnectUnixWithTimeout(server.socket_path().c_str(), {5, 0})} {
    if (!link_ || link_->err != 0) throw std::runtime_error{"the monitor cannot connect"};
    redisSetTimeout(link_.get(), {5, 0});
    redisAppendCommand(link_.get(), "MONITOR");
    next();
  }

  // The commands since the last time, the observer's own left out.
  std::vector<seen_command> commands() {
    const std::string mark = "mark " + std::to_string(++marks_);
    server_.command({"ECHO", mark});
    std::vector<seen_command> seen;
    for (;;) {
      seen_command one = parse(next());
      if (one.name() == "ECHO" && one.words.back() == mark) return seen;
      seen.push_back(std::move(one));
    }
  }

  // The lifetimes, in ms, that scripts gave to keys since the last time: the last word of SET ... PX and of PEXPIRE.
  std::vector<std::string> lifetimes() {
    std::vector<std::string> told;
    for (const seen_command& one : commands())
      if (one.by_script && (one.name() == "SET" || one.name() == "PEXPIRE")) told.push_back(one.words.back());
    return told;
  }

 private:
  struct free_context {
    void operator()(redisContext* context) const { redisFree(context); }
  };

  std::string next() {
    void* raw = nullptr;
    if (redisGetReply(link_.get(), &raw) != REDIS_OK) throw std::runtime_error{"the monitor got no line"};
    auto* const answer = static_cast<redisReply*>(raw);
    std::string line{answer->str, answer->len};
    freeReplyObject(answer);
    return line;
  }

  // 1700000000.123456 [0 unix:/path] "SET" "key" "a\"b"
  // Valkey 8.1 leaves out the backslash before a quote: what ends a word is one with another word or nothing behind it.
  static seen_command parse(std::string_view line) {
    const auto client = line.find('[');
    const auto rest = line.find("] ", client);
    seen_command made;
    made.by_script = line.substr(client, rest - client).ends_with(" lua");
    std::string word;
    bool inside = false;
    for (std::size_t i = rest + 2; i < line.size(); ++i) {
      if (line[i] == '"' && (!inside || i + 1 == line.size() || line.substr(i + 1).starts_with(" \""))) {
        if (inside) made.words.push_back(std::move(word));
        word.clear();
        inside = !inside;
      } else if (inside) {
        word += line[i];
        if (line[i] == '\\') word += line[++i];
      }
    }
    return made;
  }

  support::server& server_;
  std::unique_ptr<redisContext, free_context> link_;
  int marks_ = 0;
};

}  // namespace recipes
