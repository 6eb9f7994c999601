// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the source pass appends after the kernel source: one exported entry per name expression and
// the module's facts.

#if FETTLE_CPU_CHECK
#define FETTLE_LAUNCH_HOOKS nullptr, nullptr
#else
static void fettle_set_launch(const unsigned block[3], const unsigned grid[3], void* shared) {
  fettle_block_size_x = block[0];
  fettle_block_size_y = block[1];
  fettle_block_size_z = block[2];
  fettle_grid_x = grid[0];
  fettle_grid_y = grid[1];
  fettle_grid_z = grid[2];
  fettle_dynamic_shared_base = shared;
}
static void fettle_set_block(unsigned x, unsigned y, unsigned z) {
  fettle_block_x = x;
  fettle_block_y = y;
  fettle_block_z = z;
}
#define FETTLE_LAUNCH_HOOKS fettle_set_launch, fettle_set_block
#endif

// No barrier and no order among the threads of the loop: a race-free kernel has no dependence
// between its iterations.
#ifdef __clang__
#define FETTLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FETTLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <auto Kernel, bool Waits, class Signature>
struct fettle_kernel;
template <auto Kernel, bool Waits, class... A>
struct fettle_kernel<Kernel, Waits, void (*)(A...)> {
  typedef std::index_sequence_for<A...> indices;
  static constexpr int count = sizeof...(A);
  static constexpr int bytes[count + 1] = {(int)sizeof(A)..., 0};

  template <size_t... I>
  FETTLE_UNCHECKED static void call(void** a, std::index_sequence<I...>) {
    Kernel(*(std::remove_cv_t<std::remove_reference_t<A>>*)a[I]...);
  }
  FETTLE_UNCHECKED static void thread(void** arguments) {
#if !FETTLE_CPU_CHECK
    unsigned index[4];
    fettle_rt_begin_thread(index);
    fettle_thread_x = index[0];
    fettle_thread_y = index[1];
    fettle_thread_z = index[2];
    fettle_thread_linear = index[3];
#endif
    call(arguments, indices{});
  }

#if !FETTLE_CPU_CHECK
  __attribute__((flatten)) static void all_threads(A... v) {
    const unsigned size_x = fettle_block_size_x, size_y = fettle_block_size_y,
                   size_z = fettle_block_size_z;
    for (unsigned z = 0; z < size_z; z++) {
      fettle_thread_z = z;
      for (unsigned y = 0; y < size_y; y++) {
        fettle_thread_y = y;
        FETTLE_INDEPENDENT
        for (unsigned x = 0; x < size_x; x++) {
          fettle_thread_x = x;
          Kernel(v...);
        }
      }
    }
  }
  template <size_t... I>
  static void spread(void** a, std::index_sequence<I...>) {
    all_threads(*(std::remove_cv_t<std::remove_reference_t<A>>*)a[I]...);
  }
  static void loop(void** arguments) { spread(arguments, indices{}); }
  static constexpr void (*loop_or_null())(void**) {
    if constexpr (Waits)
      return nullptr;
    else
      return loop;
  }
#else
  static constexpr void (*loop_or_null())(void**) { return nullptr; }
#endif
};

#define FETTLE_EXPORT_ENTRY(SYMBOL, NAME, WAITS, ...)                                      \
  extern "C" __attribute__((visibility("default"))) const fettle_cpu_entry SYMBOL = {      \
      NAME,                                                                                \
      fettle_kernel<&__VA_ARGS__, WAITS, decltype(&__VA_ARGS__)>::count,                   \
      fettle_kernel<&__VA_ARGS__, WAITS, decltype(&__VA_ARGS__)>::bytes,                   \
      fettle_kernel<&__VA_ARGS__, WAITS, decltype(&__VA_ARGS__)>::thread,                  \
      fettle_kernel<&__VA_ARGS__, WAITS, decltype(&__VA_ARGS__)>::loop_or_null()};
#define FETTLE_EXPORT_MODULE                                                                \
  extern "C" __attribute__((visibility("default"))) const fettle_cpu_module                 \
      fettle_cpu_module_info = {FETTLE_CPU_ABI, FETTLE_CPU_CHECK, FETTLE_CPU_LANES,         \
                                FETTLE_LAUNCH_HOOKS};
