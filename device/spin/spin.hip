// fettle_spin: see device/gpu_spin.h. The objects beside this file are built from it by
// deploy/scripts/build_code_objects.sh. s_memrealtime counts at 100 MHz on gfx9.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

extern "C" __global__ void fettle_spin(unsigned long ns, unsigned long* out) {
  const unsigned long start = __builtin_amdgcn_s_memrealtime();
  const unsigned long ticks = ns / 10;
  unsigned long now = 0;
  do {
    now = __builtin_amdgcn_s_memrealtime() - start;
  } while (now < ticks);
  if (out != nullptr) *out = now * 10;
}
