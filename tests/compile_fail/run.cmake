# Compiles FILE twice: as it is it must compile without a word; with WRONG defined it must not, and the compiler must
# say what each "// says:" line of FILE asks for (a regular expression).
#   cmake -DCOMPILER=... -DINCLUDE=... -DFILE=... -P run.cmake
set(ENV{LC_ALL} C)
set(compile "${COMPILER}" -std=c++20 -Wall -Wextra -Wpedantic -fsyntax-only "-I${INCLUDE}" "${FILE}")

execute_process(COMMAND ${compile} RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed OR said)
  message("${said}")
  message(FATAL_ERROR "The right form does not compile cleanly")
endif()

execute_process(COMMAND ${compile} -DWRONG RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT failed)
  message(FATAL_ERROR "The wrong form compiles")
endif()
file(STRINGS "${FILE}" expected REGEX "^// says: ")
if(NOT expected)
  message(FATAL_ERROR "${FILE} has no line that begins with '// says: '")
endif()
list(TRANSFORM expected REPLACE "^// says: " "")
foreach(regex IN LISTS expected)
  if(NOT said MATCHES "${regex}")
    message("${said}")
    message(FATAL_ERROR "The compiler does not say '${regex}'")
  endif()
endforeach()
