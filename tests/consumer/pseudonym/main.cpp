// The one header that needs OpenSSL, and a target of its own.
#include <ratelimit/pseudonym.hpp>

int main() {
  const ratelimit::pseudonym hide{"sixteen bytes or more"};
  return hide("alice@example.com").size() == 24 ? 0 : 1;
}
