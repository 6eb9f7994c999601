# Target functions used by every folder, so that flags, precompiled headers and header checks are
# decided once.

add_library(fettle_build_flags INTERFACE)
add_library(fettle::build_flags ALIAS fettle_build_flags)
target_compile_options(fettle_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers -Winvalid-pch -pthread
  $<$<BOOL:${FETTLE_WERROR}>:-Werror>)
target_compile_definitions(fettle_build_flags INTERFACE
  $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS> SPDLOG_FMT_EXTERNAL)
foreach(san IN LISTS FETTLE_SANITIZE)
  target_compile_options(fettle_build_flags INTERFACE -fsanitize=${san} -fno-omit-frame-pointer)
  target_link_options(fettle_build_flags INTERFACE -fsanitize=${san})
endforeach()

# One precompiled header for libraries and programs, one for tests.
file(WRITE ${CMAKE_BINARY_DIR}/pch/empty.cc "namespace fettle {}\n")
set(FETTLE_PCH_HEADERS <algorithm> <array> <chrono> <cstdint> <functional> <map> <memory> <mutex>
  <optional> <span> <stop_token> <string> <string_view> <thread> <unordered_map> <utility>
  <variant> <vector> <absl/status/status.h> <absl/status/statusor.h> <fmt/format.h>
  <nlohmann/json.hpp>)
add_library(fettle_pch OBJECT ${CMAKE_BINARY_DIR}/pch/empty.cc)
target_link_libraries(fettle_pch PRIVATE fettle::build_flags absl::status absl::statusor fmt::fmt
  nlohmann_json::nlohmann_json Threads::Threads)
set_target_properties(fettle_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_precompile_headers(fettle_pch PRIVATE ${FETTLE_PCH_HEADERS})
# Tests are compiled once and run once: the compiler's time counts, theirs does not.
set(FETTLE_TEST_OPTIONS -O0 -g0)
if(FETTLE_BUILD_TESTS)
  add_library(fettle_test_pch OBJECT ${CMAKE_BINARY_DIR}/pch/empty.cc)
  target_compile_options(fettle_test_pch PRIVATE ${FETTLE_TEST_OPTIONS})
  target_link_libraries(fettle_test_pch PRIVATE fettle::build_flags absl::status absl::statusor
    fmt::fmt nlohmann_json::nlohmann_json Threads::Threads GTest::gmock)
  target_precompile_headers(fettle_test_pch PRIVATE ${FETTLE_PCH_HEADERS} <gmock/gmock.h>
    <gtest/gtest.h>)
endif()

# What a precompiled header depends on, beside it, so that ccache can share objects between checkouts
# (CCACHE_PCH_EXTSUM): the precompiled bytes themselves differ from build to build.
foreach(pch fettle_pch fettle_test_pch)
  if(TARGET ${pch})
    string(SHA256 sum "${pch};${CMAKE_CXX_COMPILER_ID};${CMAKE_CXX_COMPILER_VERSION};${CMAKE_BUILD_TYPE};${CMAKE_CXX_FLAGS};${CMAKE_CXX_FLAGS_RELEASE};${FETTLE_SANITIZE};${FETTLE_WERROR};${FETTLE_TEST_OPTIONS};${FETTLE_PCH_HEADERS};${absl_VERSION};${fmt_VERSION};${nlohmann_json_VERSION};${GTest_VERSION}")
    file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/${pch}.dir/cmake_pch.hxx.gch.sum "${sum}")
  endif()
endforeach()

# fettle_add_library(NAME <n> [NO_PCH] [HDRS ...] [SRCS ...] [DEPS ...] [PRIVATE_DEPS ...])
# Makes fettle::<n>. Header paths are relative to the calling folder.
function(fettle_add_library)
  cmake_parse_arguments(arg "NO_PCH" "NAME" "HDRS;SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fettle_add_library(${arg_NAME}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target fettle_${arg_NAME})
  if(arg_SRCS)
    add_library(${target} STATIC ${arg_SRCS})
    set(scope PUBLIC)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(FETTLE_UNITY GREATER 1)
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON
        UNITY_BUILD_BATCH_SIZE ${FETTLE_UNITY})
    endif()
    target_link_libraries(${target} PRIVATE fettle::build_flags ${arg_PRIVATE_DEPS})
    if(NOT arg_NO_PCH)
      target_link_libraries(${target} PRIVATE absl::status absl::statusor fmt::fmt
        nlohmann_json::nlohmann_json Threads::Threads)
      target_precompile_headers(${target} REUSE_FROM fettle_pch)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_sources(${target} ${scope} FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HDRS})
  target_link_libraries(${target} ${scope} ${arg_DEPS})
  add_library(fettle::${arg_NAME} ALIAS ${target})
endfunction()

# fettle_add_test(NAME <n> SRCS ... [DEPS ...] [LABEL unit|integration|gpu] [TIMEOUT <seconds>]
#                 [SERIAL])
# One label: gtest_discover_tests in CMake 3.25 loses the properties after a second one. SERIAL runs
# the tests with nothing beside them (they time, or need both cores).
function(fettle_add_test)
  cmake_parse_arguments(arg "SERIAL" "NAME;TIMEOUT;LABEL" "SRCS;DEPS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fettle_add_test(${arg_NAME}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${arg_NAME} ${arg_SRCS})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${arg_NAME} PRIVATE
    FETTLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FETTLE_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  target_link_libraries(${arg_NAME} PRIVATE
    fettle::build_flags absl::status absl::statusor fmt::fmt nlohmann_json::nlohmann_json
    Threads::Threads ${arg_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${arg_NAME} PRIVATE ${FETTLE_TEST_OPTIONS})
  target_precompile_headers(${arg_NAME} REUSE_FROM fettle_test_pch)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  set(more)
  if(arg_LABEL STREQUAL "gpu")
    set(more RESOURCE_LOCK gpu0)  # One GPU test at a time.
  endif()
  if(arg_SERIAL)
    list(APPEND more RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${arg_NAME} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABEL}" ${more})
endfunction()
