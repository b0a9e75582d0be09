# The version is written in include/ratelimit/version.hpp alone: cmake -DROOT=... -DVERSION=... -P one_version.cmake
string(REPLACE "." "[.]" version "${VERSION}")
file(GLOB files LIST_DIRECTORIES false "${ROOT}/*" "${ROOT}/.ci/*" "${ROOT}/.clang-*")
file(GLOB_RECURSE more "${ROOT}/include/*" "${ROOT}/tests/*" "${ROOT}/lua/*" "${ROOT}/examples/*.*pp"
  "${ROOT}/examples/*.txt")
foreach(file IN LISTS files more)
  file(STRINGS "${file}" found REGEX "(^|[^0-9.])${version}([^0-9.]|$)")
  if(found)
    message(SEND_ERROR "${file} repeats the version: ${found}")
  endif()
endforeach()
