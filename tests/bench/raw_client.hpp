// hiredis as it comes: one blocking connection.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct free_context {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct free_reply {
  void operator()(redisReply* raw) const { freeReplyObject(raw); }
};
using raw_reply = std::unique_ptr<redisReply, free_reply>;

class raw_client {
 public:
  // A path (with a slash) or a port of this machine.
  explicit raw_client(const std::string& where)
      : context_{where.find('/') != std::string::npos ? redisConnectUnix(where.c_str())
                                                      : redisConnect("127.0.0.1", std::stoi(where))} {
    if (!context_ || context_->err != 0) throw std::runtime_error{"bench: no connection to " + where};
  }

  raw_reply command(const std::vector<std::string_view>& words) {
    append(words);
    return read();
  }

  void append(const std::vector<std::string_view>& words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const std::string_view word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data());
  }

  raw_reply read() {
    void* got = nullptr;
    if (redisGetReply(context_.get(), &got) != REDIS_OK) throw std::runtime_error{context_->errstr};
    raw_reply made{static_cast<redisReply*>(got)};
    if (made->type == REDIS_REPLY_ERROR) throw std::runtime_error{std::string{made->str, made->len}};
    return made;
  }

  std::string load(std::string_view script) {
    const raw_reply got = command({"SCRIPT", "LOAD", script});
    return {got->str, got->len};
  }

 private:
  std::unique_ptr<redisContext, free_context> context_;
};

}  // namespace bench
