// The one place the version is written: CMake and pkg-config read it from here.
#pragma once

#define RATELIMIT_VERSION_MAJOR 0
#define RATELIMIT_VERSION_MINOR 1
#define RATELIMIT_VERSION_PATCH 0
