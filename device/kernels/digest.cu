// fettle_digest for NVIDIA: its PTX is in kernels.ptx (deploy/scripts/build_code_objects.sh).
#define FETTLE_BLOCK_INDEX blockIdx.x
#define FETTLE_THREAD_INDEX threadIdx.x
#define FETTLE_BARRIER() __syncthreads()
#define FETTLE_ADD_TO_GLOBAL(to, value) atomicAdd(to, value)
#include "digest.h"
