// fettle_draw for NVIDIA: its PTX is in kernels.ptx (deploy/scripts/build_code_objects.sh).
#define FETTLE_DRAW __device__ __forceinline__
#define FETTLE_SQRT(x) __dsqrt_rn(x)
#define FETTLE_BLOCK_INDEX blockIdx.x
#define FETTLE_THREAD_INDEX threadIdx.x
#include "../../core/draw.h"
#include "draw.h"
