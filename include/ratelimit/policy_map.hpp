// Which policy holds for which route of an API.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ratelimit/policy.hpp>
#include <ratelimit/settings.hpp>

namespace ratelimit {

// Route patterns, each with its policy:
//
//   /api/v1/discover        this path, whatever the method
//   /api/v1/*               this path and all below it: /api/v1, /api/v1/discover, but not /api/v10
//   POST /login             one method alone; methods are told apart by case, as in HTTP
//
// Of the patterns that fit, the one without * holds; else the longest; of the same path, the one that names the method.
// A slash at the end says nothing, in a pattern and in a path. Otherwise paths are compared byte for byte: hand over
// what the router sees, with %-encoding and dot segments resolved, lest another spelling reach the same handler under
// another policy.
//
//   ratelimit::policy_map routes{{{"POST /login", login}, {"/api/*", quota}, {"/healthz", ratelimit::no_limit}},
//   other}; ratelimit::policy_decision d = routes.find(method, target).check(identity, region);
//
// Does not change once it is made, so many threads may read it.
class policy_map {
 public:
  struct route {
    std::string_view pattern;
    policy holds;
  };

  // `otherwise` holds for whatever no pattern fits. Throws std::invalid_argument, with the pattern in the text, for one
  // that is none, and for one that is given twice.
  policy_map(const std::vector<route>& routes, policy otherwise) : otherwise_{std::move(otherwise)} {
    for (const route& r : routes) {
      entry made = parse(r.pattern);
      made.holds = r.holds;
      std::vector<entry>& among = made.below ? trees_ : paths_;
      const auto at = std::lower_bound(among.begin(), among.end(), made.key(), before);
      if (at != among.end() && at->key() == made.key()) refuse(r.pattern, "is given twice");
      longest_tree_ = std::max(longest_tree_, made.below ? made.path.size() : 0);
      among.insert(at, std::move(made));
    }
  }

  // The policy for a request. `target` may hold a query, which says nothing. What is not a path (the * of OPTIONS, say)
  // has no pattern. Allocates nothing; the reference lives as long as the map.
  const policy& find(std::string_view method, std::string_view target) const noexcept {
    std::string_view path = target.substr(0, target.find_first_of("?#"));
    if (!path.empty() && path.front() != '/') return otherwise_;
    path = without_end_slashes(path);
    if (const policy* const found = find(paths_, path, method)) return *found;
    // From the longest tree that the path may be in to the root's.
    if (path.size() > longest_tree_) path = path.substr(0, path.rfind('/', longest_tree_));
    for (;; path = path.substr(0, path.rfind('/'))) {
      if (const policy* const found = find(trees_, path, method)) return *found;
      if (path.empty()) return otherwise_;
    }
  }

 private:
  using key_type = std::pair<std::string_view, std::string_view>;

  struct entry {
    std::string path{};    // without a slash at the end, so the root's is empty
    std::string method{};  // empty: any
    bool below = false;    // and all below it
    policy holds{};

    key_type key() const noexcept { return {path, method}; }
  };

  static bool before(const entry& a, const key_type& b) noexcept { return a.key() < b; }

  // Of one path, the method's own policy before any method's; null where there is neither.
  static const policy* find(const std::vector<entry>& among, std::string_view path, std::string_view method) noexcept {
    const auto exact = [&](std::string_view wanted) -> const policy* {
      const key_type key{path, wanted};
      const auto at = std::lower_bound(among.begin(), among.end(), key, before);
      return at != among.end() && at->key() == key ? &at->holds : nullptr;
    };
    const policy* const own = method.empty() ? nullptr : exact(method);
    return own ? own : exact({});
  }

  static std::string_view without_end_slashes(std::string_view path) noexcept {
    return path.substr(0, path.find_last_not_of('/') + 1);
  }

  static entry parse(std::string_view pattern) {
    entry made;
    std::string_view path = pattern;
    if (const std::size_t space = pattern.find(' '); space != std::string_view::npos) {
      made.method = pattern.substr(0, space);
      path.remove_prefix(space + 1);
      if (made.method.empty() || !std::all_of(made.method.begin(), made.method.end(), is_of_method))
        refuse(pattern, "does not begin with a method in upper case, one space and a path");
    }
    if (path.empty() || path.front() != '/') refuse(pattern, "has no path that begins with /");
    made.below = path.ends_with("/*");
    if (made.below) path.remove_suffix(1);
    if (!std::all_of(path.begin(), path.end(), is_of_path))
      refuse(pattern, "holds what no path does, or a * that is not the last segment");
    made.path = without_end_slashes(path);
    return made;
  }

  static bool is_of_method(char c) noexcept {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  // A query or a fragment would never fit. Bytes above ASCII are those of a decoded path.
  static bool is_of_path(char c) noexcept {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '?' && c != '#' && c != '*';
  }

  [[noreturn]] static void refuse(std::string_view pattern, std::string_view why) {
    detail::refuse("policy_map", '"' + std::string{pattern} + '"', why);
  }

  policy otherwise_;
  std::vector<entry> paths_{};  // sorted by path and method
  std::vector<entry> trees_{};  // the same
  std::size_t longest_tree_ = 0;
};

}  // namespace ratelimit
