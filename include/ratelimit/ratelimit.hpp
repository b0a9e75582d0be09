// Everything but pseudonym.hpp, which needs OpenSSL's libcrypto.
#pragma once

#include <ratelimit/all_of.hpp>
#include <ratelimit/call.hpp>
#include <ratelimit/clock.hpp>
#include <ratelimit/decision.hpp>
#include <ratelimit/error.hpp>
#include <ratelimit/failure.hpp>
#include <ratelimit/fixed_window.hpp>
#include <ratelimit/http/client_address.hpp>
#include <ratelimit/http/headers.hpp>
#include <ratelimit/http/problem.hpp>
#include <ratelimit/http/status.hpp>
#include <ratelimit/memory.hpp>
#include <ratelimit/metrics.hpp>
#include <ratelimit/observer.hpp>
#include <ratelimit/policy.hpp>
#include <ratelimit/policy_map.hpp>
#include <ratelimit/redis.hpp>
#include <ratelimit/sliding_counter.hpp>
#include <ratelimit/sliding_log.hpp>
#include <ratelimit/token_bucket.hpp>
#include <ratelimit/version.hpp>
