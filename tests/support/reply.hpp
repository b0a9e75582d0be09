// What a server answered, as a plain value that tests can compare.
#pragma once

#include <hiredis/hiredis.h>

#include <string>
#include <vector>

namespace support {

// A command.
using words = std::vector<std::string>;

struct reply {
  enum kind { nil, status, string, integer, array, error };

  kind type = nil;
  std::string text{};  // of a status, a string or an error
  long long number = 0;
  std::vector<reply> items{};

  bool operator==(const reply&) const = default;

  static reply from(const redisReply& raw) {
    reply made;
    switch (raw.type) {
      case REDIS_REPLY_STATUS: made.type = status; break;
      case REDIS_REPLY_STRING: made.type = string; break;
      case REDIS_REPLY_ERROR: made.type = error; break;
      case REDIS_REPLY_INTEGER:
        made.type = integer;
        made.number = raw.integer;
        break;
      case REDIS_REPLY_ARRAY:
        made.type = array;
        for (std::size_t i = 0; i < raw.elements; ++i) made.items.push_back(from(*raw.element[i]));
        break;
      default: break;
    }
    if (made.type == status || made.type == string || made.type == error) made.text.assign(raw.str, raw.len);
    return made;
  }
};

}  // namespace support
