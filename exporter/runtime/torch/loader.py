# SPDX-License-Identifier: Apache-2.0
"""Builds and loads the PyTorch extension of a bundle exported by fettle; op.py and setup.py use it.

FETTLE_TORCH_ABI=stable: over PyTorch's stable interface, one binary for all versions from 2.9 on (the default there).
FETTLE_TORCH_ABI=version: over the C++ interface of the PyTorch that is installed.
"""
import ctypes
import os
import pathlib
import re
import subprocess
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def abi():
    """The interface to build against."""
    chosen = os.environ.get("FETTLE_TORCH_ABI", "")
    if chosen not in ("", "stable", "version"):
        raise RuntimeError("FETTLE_TORCH_ABI: 'stable' or 'version', not %r" % chosen)
    if chosen:
        return chosen
    return "stable" if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) >= (2, 9) else "version"


def file_name(space, kind):
    return "%s-%s.so" % (space, kind if kind == "stable" else "torch-" + torch.__version__)


def compile_command(output, kind, compare=False):
    """The compiler's arguments that make the extension `output`. `compare`: check declarations against PyTorch's header."""
    library = pathlib.Path(torch.__file__).parent / "lib"
    command = [os.environ.get("CXX", "g++"), "-O2", "-std=c++20", "-shared", "-fPIC", "-pthread", "-I%s" % (ROOT / "include"),
               "-I%s" % HERE]
    if kind == "stable":
        command.append("-DFETTLE_TORCH_STABLE")
    if compare:
        command.append("-DFETTLE_TORCH_COMPARE")
        if torch.version.cuda is not None:
            command.append("-DUSE_CUDA")
    if kind != "stable" or compare:
        from torch.utils import cpp_extension
        command.append("-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI)
        command += ["-I%s" % path for path in cpp_extension.include_paths()]
        if torch.version.hip is not None:
            command.append("-DUSE_ROCM")
    command += [str(HERE / "binding.cpp"), "-o", str(output), "-L%s" % library, "-Wl,--no-as-needed", "-ltorch_cpu", "-ldl"]
    if kind != "stable":
        command += ["-Wl,-rpath,%s" % library, "-lc10", "-ltorch"]
        if torch.version.cuda is not None:
            command.append("-ltorch_cuda")
        elif torch.version.hip is not None:
            command.append("-ltorch_hip")
    return command


def build(path, kind):
    """Makes the extension `path`, seen whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    try:
        done = subprocess.run(compile_command(temporary, kind), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("compiling the PyTorch operator failed:\n" + done.stderr[-4000:])
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)


def load(space):
    """The extension, registered with PyTorch: built by setup.py, else found in or added to the user's cache."""
    kind = abi()
    path = HERE / file_name(space, kind)
    if not path.exists():
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        path = cache / "fettle" / "torch" / file_name(space, kind)
        if not path.exists():
            build(path, kind)
    torch.ops.load_library(str(path))
    library = ctypes.CDLL(str(path))
    library.fettle_torch_statistics.restype = ctypes.c_char_p
    library.fettle_torch_set_root.argtypes = [ctypes.c_char_p]
    library.fettle_torch_set_root(os.fsencode(ROOT))
    return library


def ceil_div(a, b):
    return -(-a // b)


def select(condition, a, b):
    return a if condition else b
