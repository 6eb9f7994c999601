#error \
    "mma.h (nvcuda::wmma) exists only for NVIDIA; write this kernel for AMD with __builtin_amdgcn_mfma_* or plain loops"
