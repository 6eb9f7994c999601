# SPDX-License-Identifier: Apache-2.0
"""The closest call of PyTorch for each bundled task: functions of tensors, and how their results compare.

Each maker is given (torch, case, inputs) and returns Call(function, arguments, names): the function gives the
outputs `names` in order. The function is the same for all sets of inputs of a case, so that it compiles once.
"""
import collections
import itertools

from .expressions import offsets_of

Call = collections.namedtuple("Call", "function arguments names what compiles")
TOLERANCE = {"f16": 1e-2, "bf16": 4e-2, "f32": 1e-3, "f64": 1e-9}


def call(function, arguments, names, what, compiles=True):
    return Call(function, arguments, names, what, compiles)


def layernorm_fwd(torch, case, inputs):
    t, functional = inputs.tensors, torch.nn.functional
    width = (case.values["cols"],)
    return call(lambda x, g, b: (functional.layer_norm(x, width, g, b, 1e-5),), (t["x"], t["gamma"], t["beta"]), ["y"], "layer_norm")


def rmsnorm_fwd(torch, case, inputs):
    t, functional = inputs.tensors, torch.nn.functional
    width = (case.values["cols"],)
    return call(lambda x, g: (functional.rms_norm(x, width, g, 1e-5),), (t["x"], t["gamma"]), ["y"], "rms_norm")


def softmax_fwd(torch, case, inputs):
    return call(lambda x: (torch.softmax(x, -1),), (inputs.tensors["x"],), ["y"], "softmax")


def layernorm_bwd(torch, case, inputs):
    t, width = inputs.tensors, [case.values["cols"]]
    mean, rstd = t["mean"].reshape(-1, 1), t["rstd"].reshape(-1, 1)

    def run(dy, x, mean, rstd, gamma):
        return torch.ops.aten.native_layer_norm_backward(dy, x, width, mean, rstd, gamma, gamma, [True, True, True])
    return call(run, (t["dy"], t["x"], mean, rstd, t["gamma"]), ["dx", "dgamma", "dbeta"], "native_layer_norm_backward")


def rmsnorm_bwd(torch, case, inputs):
    t = inputs.tensors

    def run(dy, x, rstd, gamma):
        normal = x.float() * rstd
        weighted = dy.float() * gamma.float()
        dx = rstd * (weighted - normal * (weighted * normal).mean(1, keepdim=True))
        return dx.to(x.dtype), (dy.float() * normal).sum(0)
    return call(run, (t["dy"], t["x"], t["rstd"].reshape(-1, 1), t["gamma"]), ["dx", "dgamma"], "chain of pointwise and sums")


def softmax_bwd(torch, case, inputs):
    t = inputs.tensors
    return call(lambda dy, y: (torch.ops.aten._softmax_backward_data(dy, y, -1, y.dtype),), (t["dy"], t["y"]), ["dx"],
                "_softmax_backward_data")


def bias_gelu_residual(torch, case, inputs):
    t, scale = inputs.tensors, float(case.per_case("scale"))

    def run(x, bias, keep, residual):
        value = torch.nn.functional.gelu(x + bias) * scale
        return (torch.where(keep != 0, value, torch.zeros_like(value)) + residual,)
    return call(run, (t["x"], t["bias"], t["keep"], t["residual"]), ["y"], "chain of pointwise")


def matmul(torch, case, inputs):
    t = inputs.tensors
    return call(lambda a, b: (torch.mm(a, b),), (t["a"], t["b"]), ["c"], "torch.mm, cuBLAS, no TF32")


def gemm(torch, case, inputs):
    t, alpha, beta = inputs.tensors, case.case["alpha"], case.case["beta"]
    if alpha == 1 and beta == 0:
        return call(lambda a, b: (torch.mm(a, b),), (t["a"], t["b"]), ["d"], "torch.mm, cuBLAS")
    return call(lambda c, a, b: (torch.addmm(c, a, b, beta=beta, alpha=alpha),), (t["c"], t["a"], t["b"]), ["d"], "torch.addmm, cuBLAS")


def histogram(torch, case, inputs):
    bins = case.values["bins"]
    return call(lambda data: (torch.histc(data, bins=bins, min=0, max=bins),), (inputs.tensors["data"],), ["counts"], "histc",
                compiles=False)


def bounds_check_indices(torch, case, inputs):
    t, batch, count = inputs.tensors, case.values["batch"], case.values["mode"] == 1
    # The pristine indices: the kernels repair theirs in place.
    total = case.values["total"]

    def run(rows, indices, offsets):
        ends = offsets[::batch].long()
        limit = torch.repeat_interleave(rows, ends[1:] - ends[:-1], output_size=total)
        bad = (indices != -1) & ((indices < 0) | (indices >= limit))
        found = bad.sum().reshape(1) if count else torch.zeros(1, dtype=torch.int64, device=indices.device)
        return torch.where(bad, torch.zeros_like(indices), indices), found
    return call(run, (t["rows_per_table"], inputs.pristine["indices"], t["offsets"]), ["indices", "warning"], "chain of pointwise",
                compiles=False)


def group_index_select(torch, case, inputs):
    t = inputs.tensors

    def run(sources, indices):
        return ([torch.index_select(x, 0, i) for x, i in zip(sources, indices)],)
    return call(run, (t["in"], t["indices"]), ["out"], "index_select a member", compiles=False)


def group_index_select_bwd(torch, case, inputs):
    t = inputs.tensors
    shapes = [tuple(g.shape) for g in t["grad_in"]]

    def run(grads, indices):
        return ([torch.zeros(shape, device="cuda").index_add_(0, i, g) for shape, g, i in zip(shapes, grads, indices)],)
    return call(run, (t["grad_out"], t["indices"]), ["grad_in"], "zeros and index_add_ a member", compiles=False)


def tbe_forward(torch, case, inputs):
    t, v = inputs.tensors, case.values
    batch, tables, rows = v["batch"], v["tables"], v["rows"]
    starts, mode = offsets_of(v["lens"]), "mean" if v["mean"] else "sum"
    parts, at = [], 0
    for table in range(tables):
        first, last = starts[table * batch], starts[(table + 1) * batch]
        weight = t["weights"][at:at + rows * v["widths"][table]].reshape(rows, -1)
        at += rows * v["widths"][table]
        offsets = (t["offsets"][table * batch:(table + 1) * batch] - first).contiguous()
        each = None if t["sample_weights"] is None else t["sample_weights"][first:last].to(weight.dtype)
        parts.append((weight, t["indices"][first:last], offsets, each))

    def run(*flat):
        bags = [torch.nn.functional.embedding_bag(flat[i + 1], flat[i], flat[i + 2], mode=mode, per_sample_weights=flat[i + 3])
                for i in range(0, len(flat), 4)]
        return (torch.cat(bags, 1),)
    return call(run, tuple(itertools.chain(*parts)), ["out"], "embedding_bag a table and cat; results in the tables' type",
                compiles=False)


def tbe_backward_adagrad(torch, case, inputs):
    t, v = inputs.tensors, case.values
    tables, batch, rows, width = v["tables"], v["batch"], v["rows"], v["width"]
    lens = torch.tensor(v["lens"], dtype=torch.int64)
    bag = torch.repeat_interleave(torch.arange(tables * batch), lens).cuda()
    linear = (t["indices"].long() + bag // batch * rows)
    scale = torch.ones_like(linear, dtype=torch.float32) if t["sample_weights"] is None else t["sample_weights"]
    if v["mean"]:
        scale = scale / lens.cuda()[bag]
    where = bag % batch * tables + bag // batch
    rate, eps = case.case["rate"], 1e-8

    def run(grad, linear, where, scale, weights, momentum):
        each = grad.reshape(-1, width)[where] * scale[:, None]
        sums = torch.zeros((tables * rows, width), device="cuda").index_add_(0, linear, each)
        moment = momentum + (sums * sums).mean(1)
        return (weights.float() - (rate / (moment.sqrt() + eps))[:, None] * sums).to(weights.dtype), moment
    return call(run, (t["grad_out"], linear, where, scale, inputs.pristine["weights"], inputs.pristine["momentum"]),
                ["weights", "momentum"], "gather, index_add_ and an update of all rows; bags of indices are given")


def permute_pooled(torch, case, inputs):
    v, source = case.values, inputs.tensors["from"]
    batch, widths, starts = v["batch"], v["widths"], offsets_of(v["widths"])
    if v["split"] == 0:
        blocks = tuple(source[batch * starts[i]:batch * starts[i + 1]].reshape(batch, widths[i]) for i in range(v["ranks"]))
        return call(lambda *blocks: (torch.cat(blocks, 1).flatten(),), blocks, ["to"], "cat")
    rows = source.reshape(batch, v["total"])
    return call(lambda x: (torch.cat([x[:, starts[i]:starts[i + 1]].reshape(-1) for i in range(len(widths))]),), (rows,), ["to"],
                "slices and cat")


def batched_eigh(torch, case, inputs):
    return call(lambda a: (torch.linalg.eigh(a)[0],), (inputs.tensors["a"],), ["w"], "linalg.eigh", compiles=False)


def padded(torch, lens, longest):
    """Positions of a padded batch in the jagged array, its last row (of zeros) beyond a sequence; which are inside
    of one; and where the jagged array's rows are in the padded one."""
    starts = torch.tensor(offsets_of(lens)[:-1])[:, None]
    place = torch.arange(longest)[None, :]
    inside = place < torch.tensor(lens)[:, None]
    index = torch.where(inside, starts + place, torch.full_like(starts + place, sum(lens)))
    return index.cuda(), inside.cuda(), inside.flatten().nonzero().flatten().cuda()


def pad(torch, x, index):
    """[total, heads, width] to [batch, heads, longest, width]."""
    return torch.cat([x, torch.zeros_like(x[:1])])[index].transpose(1, 2)


def unpad(x, places):
    """[batch, heads, longest, width] to [total, heads, width]."""
    return x.transpose(1, 2).flatten(0, 1)[places]


def hstu_mask(torch, case):
    v, longest = case.values, case.values["longest"]
    lens = torch.tensor(v["lens"]).cuda()[:, None]
    targets = torch.tensor(v["targets"] if v["has_targets"] else [0] * len(v["lens"])).cuda()[:, None]
    place, context = torch.arange(longest, device="cuda")[None, :], v["contextual"]
    last = (lens if context == 0 else lens - context + 1) - targets
    position = torch.minimum(place if context == 0 else (place - context + 1).clamp(min=0), last)
    row, key = position[:, :, None], position[:, None, :]
    distance = row - key
    seen = (place[0][:, None] == place[0][None, :])[None] | (distance > 0)
    if v["window"] > 0:
        near = distance <= v["window"]
        if v["full"] > 0:
            near = near | (row >= (last - v["full"])[:, :, None])
        seen = seen & near
    if context > 0:
        seen = seen | ((row == 0) & (key < last[:, :, None]))
    inside = place < lens
    return seen & inside[:, :, None] & inside[:, None, :]


def hstu_forward(torch, case, inputs):
    t, v = inputs.tensors, case.values
    if not hasattr(case, "hstu"):
        index, _, places = padded(torch, v["lens"], v["longest"])
        case.hstu = index, places, hstu_mask(torch, case)[:, None]
    alpha, divisor = float(case.case["alpha"]), float(v["max_len"])

    def run(q, k, value, index, places, mask):
        scores = pad(torch, q, index) @ pad(torch, k, index).transpose(2, 3) * alpha
        weights = torch.where(mask, torch.nn.functional.silu(scores) / divisor, torch.zeros_like(scores))
        return (unpad(weights @ pad(torch, value, index), places),)
    return call(run, (t["q"], t["k"], t["v"], *case.hstu), ["out"], "padded batch, matmul, silu, matmul; mask and positions given")


def activation(torch, number):
    """The activation and its derivative times a gradient."""
    functional, aten = torch.nn.functional, torch.ops.aten
    if number in (1, 2):
        kind = "none" if number == 1 else "tanh"
        return (lambda x: functional.gelu(x, approximate=kind)), (lambda g, x: aten.gelu_backward(g, x, approximate=kind))
    if number == 7:
        return functional.silu, aten.silu_backward
    return None


def gdpa_parts(torch, case):
    v = case.values
    if not hasattr(case, "gdpa"):
        rows, of_rows, queries = padded(torch, v["q_lens"], max(v["q_lens"]))
        keys, of_keys, inside = padded(torch, v["k_lens"], max(v["k_lens"]))
        mask = of_rows[:, :, None] & of_keys[:, None, :]
        if v["window"] >= 0:
            row, key = torch.arange(max(v["q_lens"]), device="cuda"), torch.arange(max(v["k_lens"]), device="cuda")
            far = row[:, None] - key[None, :]
            mask = mask & (far.abs() <= v["window"])[None]
        case.gdpa = rows, queries, keys, inside, mask[:, None]
    return case.gdpa


def gdpa_forward(torch, case, inputs):
    t, act = inputs.tensors, activation(torch, case.values["ACT"])
    scale, group = float(case.case["scale"]), case.values["group"]

    def run(q, k, value, rows, queries, keys, inside, mask):
        keyed = pad(torch, k, keys).repeat_interleave(group, 1)
        valued = pad(torch, value, keys).repeat_interleave(group, 1)
        scores = pad(torch, q, rows) @ keyed.transpose(2, 3)
        weights = torch.where(mask, act[0](scores) * scale, torch.zeros_like(scores))
        return (unpad(weights @ valued, queries),)
    return call(run, (t["q"], t["k"], t["v"], *gdpa_parts(torch, case)), ["out"],
                "padded batch, matmul, activation, matmul; mask and positions given")


def gdpa_backward(torch, case, inputs):
    t, act = inputs.tensors, activation(torch, case.values["ACT"])
    scale, group = float(case.case["scale"]), case.values["group"]

    def shared(x):
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    def run(q, k, value, grad, rows, queries, keys, inside, mask):
        query, gradient = pad(torch, q, rows), pad(torch, grad, rows)
        keyed = pad(torch, k, keys).repeat_interleave(group, 1)
        valued = pad(torch, value, keys).repeat_interleave(group, 1)
        scores = query @ keyed.transpose(2, 3)
        zero = torch.zeros_like(scores)
        weights = torch.where(mask, act[0](scores) * scale, zero)
        slopes = torch.where(mask, act[1](gradient @ valued.transpose(2, 3), scores) * scale, zero)
        dq = unpad(slopes @ keyed, queries)
        dk = unpad(shared(slopes.transpose(2, 3) @ query), inside)
        return dq, dk, unpad(shared(weights.transpose(2, 3) @ gradient), inside)
    return call(run, (t["q"], t["k"], t["v"], t["grad"], *gdpa_parts(torch, case)), ["dq", "dk", "dv"],
                "padded batch, five matmuls; mask and positions given")


MAKERS = {maker.__name__: maker for maker in (
    layernorm_fwd, rmsnorm_fwd, softmax_fwd, layernorm_bwd, rmsnorm_bwd, softmax_bwd, bias_gelu_residual, matmul, gemm, histogram,
    bounds_check_indices, group_index_select, group_index_select_bwd, tbe_forward, tbe_backward_adagrad, permute_pooled, batched_eigh,
    hstu_forward, gdpa_forward, gdpa_backward)}


def joined(torch, value):
    return torch.cat([v.flatten() for v in value]) if isinstance(value, (list, tuple)) else value


def compare(torch, case, mine, theirs):
    """(agree, sentence): results by name, integers exactly, others by the largest difference over the largest value."""
    notes, agree = [], True
    for name, expected in theirs.items():
        got, expected = mine[name].flatten(), joined(torch, expected).flatten()
        if not got.dtype.is_floating_point:
            wrong = int((got.long() != expected.long()).sum())
            agree, note = agree and wrong == 0, f"{name}: {wrong} differ"
        else:
            bound = max([TOLERANCE[kind] for kind in case.types.values() if kind in TOLERANCE] + [1e-3])
            if not case.types:
                bound = max(bound, TOLERANCE["bf16"] if expected.dtype == torch.bfloat16 else bound)
            size = float(expected.float().abs().max()) if expected.numel() else 0.0
            worst = float((got.float() - expected.float()).abs().max()) if got.numel() else 0.0
            fine = worst <= bound * max(size, 1e-30)  # Not so where there is a NaN.
            agree, note = agree and fine, f"{name}: {worst:.2g} of {size:.2g}"
        notes.append(note)
    return agree, "; ".join(notes)


def check_eigh(torch, case, inputs):
    """Residual and orthogonality of a kernel's own vectors, in units of n eps |A|, worst of all matrices."""
    a, w, q = (inputs.tensors[name].double() for name in ("a", "w", "q"))
    a = torch.tril(a) + torch.tril(a, -1).transpose(1, 2)
    n = a.shape[1]
    unit = n * 2.0 ** -23
    size = a.abs().sum(1).amax(1)
    residual = (a @ q - q * w[:, None, :]).abs().sum(1).amax(1) / (unit * size)
    straight = (q.transpose(1, 2) @ q - torch.eye(n, device="cuda", dtype=torch.float64)).abs().sum(1).amax(1) / unit
    worst = max(float(residual.max()), float(straight.max()))
    return worst < 100, f"residual {float(residual.max()):.2g}, orthogonality {float(straight.max()):.2g} of n eps"
