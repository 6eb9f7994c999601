// fettle_digest for NVIDIA: its PTX is in kernels.ptx (deploy/scripts/build_code_objects.sh).
#define FETTLE_THREAD (blockIdx.x * 256ull + threadIdx.x)
#define FETTLE_THREADS (1024ull * 256)
#define FETTLE_ADD_TO_GLOBAL(to, value) atomicAdd(to, value)
#include "digest.h"
