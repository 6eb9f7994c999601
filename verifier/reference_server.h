// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fettle {

// The process in which a task's reference and checkers run, apart from candidates and from the
// worker: answers requests on the socket `fd` until the other side closes, then returns the exit
// code. `fettle-runner --reference` is nothing but this inside a sandbox.
//
// Requests are frames (frame_io.h) and are answered in order, {"error": text} when they fail:
//   {"op": "load", "function": f}          bytes: a shared object       -> {"library": n}
//   {"op": "prepare", "case": BoundCase, "seed": hex, "set": n, "flip_tensor": i,
//    "flip_element": i, "files": [{"path", "size"}]}  bytes: the files  -> {}
//   {"op": "evaluate", "library": n, "outputs": [{"tensor": i, "rows": [..] | null}]}
//        -> {"outputs": [{"values": count, "magnitude": bool, "length": bool, "bytes": count}]}
//           bytes: for each output its values, magnitudes, lengths (doubles) or its raw bytes
//   {"op": "work", "library": n}                         -> {"bytes": x, "flops": x}
//   {"op": "check", "library": n, "reference": m, "outputs": [tensor, ...]}  bytes: dense outputs
//        -> {"worst", "mean_square", "worst_output", "worst_element", "message"}
// "evaluate", "work" and "check" use the case of the last "prepare".
int ServeReference(int fd);

}  // namespace fettle
