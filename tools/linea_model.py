#!/usr/bin/env python3
"""Models of Linea in NumPy: reads model.safetensors of a run; scores, samples and evaluates. One file to copy.

    python3 linea_model.py RUN TOKEN...      one line of scores for each position; without tokens: of standard input
    python3 linea_model.py RUN sample TEXT tokens=100 temperature=0.8 top_k=40 top_p=0.9 greedy=false seed=1
    python3 linea_model.py RUN eval FILE     loss and bits of the last tenth of a text, as linea eval

RUN is a run, a checkpoint folder or a model.safetensors file. As a module:

    model = linea_model.load("RUN")
    scores = model.logits([5, 3, 8])    # [3, vocabulary], the logits of what follows each token
    text = model.sample("To be", tokens=100, temperature=0.8)
    loss, accuracy = model.evaluate(model.encode(text))    # nats, of which math.log(2) are a bit

The formulas are those of the papers, one after the other, in double precision, without the tricks that make the
program fast. N is the number of positions, D the size of a head's queries and keys, F the number of features.
"""
import json
import math
import pathlib
import re
import sys

import numpy as np

FORMAT = "linea-2"
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}
# Settings that change the formulas, and those that do not. Any other is refused: it may change them.
TASKS = "digits mnist cifar10 images text copy"
READ = """attention attention_output before beta_range bias block buckets channels class_embedding clusters codes decay dilation factor feature features gate_rank heads
iterations key_norm keys layer_convolution layers length levels local_heads nu outer output_head pattern pattern_by pool_size pool_stride pooling positions predict prior ramp
randoms rank ratio reversible rounds rule seed size skip_blank slots sort_temperature stride summary synth task tie window"""
UNREAD = """accumulate anneal batch beta1 beta2 bytes centroid_decay chunk class_dropout class_token clip codebook comm_timeout commitment copy_tokens data decay_steps device dim
dropout dtype early_stop ema eval_every examples ffn flip globals judge_samples keep_every keep_last lr mask max_time memory min_lr muon_lr
muon_momentum optimizer projection recompute redraw sample_every save_every segment sequence_ranks sigma sort_noise spike_guard steps tensorboard threads tokenizer vocab warmup weight_decay"""
PATTERNS = "sparse local longformer bigbird sparse-strided sparse-fixed image-local-1d image-local-2d axial".split()
ALIASES = {"gdn": "silu gated-delta head unit", "gla": "identity decay channel none", "kda": "silu gated-delta channel unit",
           "retnet": "identity decay fixed none", "ssd": "silu decay head none"}
ONLY = {"bigram_embedding": "false", "embedding_convolution": '"none"', "assign": '"recent"'}  # settings with these values alone

def choose(kind, name, known):
    if name not in known:
        raise ValueError(f"{kind} '{name}' is not known here; known: {', '.join(known)}")
    return known[name] if isinstance(known, dict) else name

# ---- the file: 8 bytes with the length of a JSON header, the header, the tensors ----
def read_file(path):
    """The tensors by name, as float64, the settings, and the vocabulary of a text."""
    path = max(path.glob("checkpoints/step-*"), key=lambda folder: int(folder.name[5:]), default=path)
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"there is no model in {path}: name a run, a checkpoint folder or a model.safetensors file")
    blob = file.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    if blob[8:9] != b"{" or 8 + size > len(blob):
        raise ValueError(f"{file} is not a safetensors file, or it is cut")
    header = json.loads(blob[8:8 + size])
    metadata = header.pop("__metadata__", {})
    choose("the format", metadata.get("format", "none"), [FORMAT])
    tensors = {}
    for name, entry in header.items():
        dtype = choose(f"the type of {name},", entry["dtype"], DTYPES)
        begin, end = entry["data_offsets"]
        if 8 + size + end > len(blob):
            raise ValueError(f"{file} has {len(blob)} bytes, {name} ends at {8 + size + end}: the file is cut")
        values = np.frombuffer(blob, dtype, (end - begin) // np.dtype(dtype).itemsize, 8 + size + begin)
        tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    settings = {}
    for line in metadata["config"].splitlines():
        if line and not line.startswith("#"):
            key, value = line.split(" = ", 1)  # TOML's numbers, texts and truth values are also JSON's
            if key in ONLY:
                choose(f"the value of {key},", value, [ONLY[key]])
            else:
                settings[choose("the setting", key, READ.split() + UNREAD.split())] = json.loads(value)
    if settings.get("layer_convolution") == "2d" and "image_windows" not in metadata:
        print(f"{path}: an older version trained it with other windows at the image's border", file=sys.stderr)
    return tensors, settings, json.loads(metadata.get("vocabulary", "{}"))

# ---- feature maps: x [H,N,D] -> features [H,N,F], and the log of a weight of each row [H,N] ----
def elu(x):  # elu(x) + 1 (Katharopoulos 2020)
    return np.where(x < 0, np.exp(np.minimum(x, 0)), x + 1), 0

def relu(x):  # Choromanski 2021
    return np.maximum(x, 0) + 1e-3, 0

def from_logs(logs):  # Features exp(logs), of which the largest of a row is taken out as the row's weight
    return np.exp(logs - logs.max(axis=-1, keepdims=True)), logs.max(axis=-1)

def square(x):  # All products of two components, so that phi(q).phi(k) = (q.k)^2 (Tsai 2019)
    return np.einsum("hni,hnj->hnij", x, x).reshape(*x.shape[:2], -1), 0

def dpfp(x, nu):  # r = relu([x, -x]), times itself shifted by 1 .. nu (Schlag 2021)
    r = np.maximum(np.concatenate([x, -x], axis=-1), 0)
    return np.concatenate([r * np.roll(r, -shift, axis=-1) for shift in range(1, nu + 1)], axis=-1), 0

def performer(x, omega, feature):
    """Random features, phi(q).phi(k) = exp(q.k / sqrt(D)) in the mean (Choromanski 2021); omega [H,R,D].
    What multiplies all features of a query cancels in attention, and so does 1 / sqrt(R)."""
    x = x / x.shape[-1] ** 0.25
    if feature == "hyperbolic":
        omega = np.concatenate([omega, -omega], axis=1)
    u = x @ omega.swapaxes(1, 2)  # omega.x
    half_norm = (x * x).sum(axis=-1) / 2
    if feature == "relu":
        return relu(u)
    if feature == "trig":
        return np.concatenate([np.sin(u), np.cos(u)], axis=-1), half_norm
    choose("the random feature", feature, ["positive", "hyperbolic", "trig", "relu"])
    return from_logs(u - half_norm[..., None])

def attentions(settings):
    """The settings of the attentions that the layers take in turn: "linear:rule=gated/softmax"."""
    def setting(text):
        key, value = text.split("=", 1)
        value = value.strip("{}")  # which hold a value with / or : together
        key = choose("the setting", key.replace("-", "_"), READ.split() + UNREAD.split())
        return key, int(value) if value.isdigit() else value
    def item(name, *own):
        linear = zip(("feature", "rule", "decay", "key_norm"), ALIASES.get(name, "").split())
        return {**settings, "attention": "linear" if name in ALIASES else name, **dict(linear), **dict(map(setting, own))}
    return [item(*re.split(r":(?![^{]*})", text)) for text in re.split(r"/(?![^{]*})", settings["attention"])]

# ---- attention: q, k, v [H,N,D] -> y [H,N,D], position i from the positions j <= i ----
def softmax(x):
    return divide(np.exp(x - x.max(axis=-1, keepdims=True)))

def divide(x, by="sum"):  # Rows by their sum, or by their length; by 0: 0
    sums = {"sum": x, "unit": x ** 2, "none": 0 * x[..., :1] + 1}
    total = choose("the norm", by, sums).sum(axis=-1, keepdims=True) ** (0.5 if by == "unit" else 1)
    return np.divide(x, total, out=np.zeros_like(x), where=total != 0)

def softmax_attention(q, k, v, keys):
    """y_i = sum_j a_ij v_j,  a_ij = softmax over the keys [H,N,N] of i of q_i.k_j / sqrt(D)."""
    scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    return softmax(np.where(keys, scores, -np.inf)) @ v

def windowed(N, window):  # i - window < j <= i; 0: all j <= i
    return np.tri(N) > np.tri(N, k=-(window or N))

def top_keys(q, k, count):  # the keys j <= i of largest q_i.k_j, of equals the first, and i
    N = q.shape[1]
    q, k = (x.astype(np.float32).astype(np.float64) for x in (q, k))
    scores = np.where(np.tri(N), q @ k.swapaxes(1, 2), -np.inf)
    rank = np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1)
    return (rank < count) & (np.tri(N) > 0) | (np.eye(N) > 0)

PATTERN, PROBE = 9, 12  # purposes of random numbers

def random_below(seed, purpose, stream, step, index, count):
    """Integers in [0, count), a word each of Philox 4x32-10 (Salmon 2011) at the counter (index / 4, step, stream, purpose)."""
    numbers = np.broadcast_arrays(*(np.atleast_1d(np.asarray(x, np.uint64)) for x in (index, step, stream, count)))
    index, step, stream, count = numbers
    low, half, four = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(4)
    c = [index // four & low, index // four >> half, step & low,
         np.uint64(purpose << 24) | stream << np.uint64(8) | step >> half]
    for n in range(10):
        keys = [np.uint64(((seed >> 32 * word) + n * step) & 0xFFFFFFFF) for word, step in enumerate((0x9E3779B9, 0xBB67AE85))]
        p, r = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [r >> half ^ c[1] ^ keys[0], r & low, p >> half ^ c[3] ^ keys[1], p & low]
    return (np.choose((index % four).astype(int), c) * count >> half).astype(int)

def random_blocks(r, N, block, seed, stream):
    """The keys [N,N] of r earlier blocks, which are random for each block of queries (Floyd's sampling without repeats)."""
    keys = np.zeros((N, N), bool)
    for n in range(1, -(-N // block)):
        chosen = []
        for j in range(max(n - r, 0), n):
            other = int(random_below(seed, PATTERN, stream, n, j, j + 1)[0])
            chosen.append(j if other in chosen else other)
        keys[n * block:(n + 1) * block] = np.isin(np.arange(N) // block, chosen)
    return keys

def pattern_keys(pattern, N, width, channels, random):
    """The keys j <= i of a union of atoms, [N,N]; width and channels are those of an image, random(r) those of r blocks."""
    i, j = np.arange(N)[:, None], np.arange(N)[None, :]
    row, column = (lambda n: n // (width * channels)), (lambda n: n // channels % width)
    atoms = {"band": lambda w: i - j < w, "dilated": lambda w, d: ((i - j) % d == 0) & (i - j < w * d),
             "block": lambda b, p=0: i // b - j // b <= p, "global": lambda g: j < g,
             "strided": lambda l: (i - j) % l == 0, "fixed": lambda l, c: (j % l >= l - c) & (i >= 0),
             "random": random, "row": lambda: row(i) == row(j), "column": lambda: column(i) == column(j),
             "block2d": lambda a, b: (row(i) // a == row(j) // a) & (column(i) // b == column(j) // b),
             "local2d": lambda a, b, h, w: (row(j) >= row(i) // a * a - h) & (column(j) >= column(i) // b * b - w)
             & (column(j) < column(i) // b * b + b + w)}
    keys = i == j
    for atom in pattern.split("+"):
        name, _, numbers = atom.partition(":")
        keys = keys | choose("the atom", name, atoms)(*map(int, numbers.split("x") if numbers else ()))
    return keys & (j <= i)

def pattern_of(s, row):
    """The causal pattern of an attention, and whether heads take its alternatives; row: tokens of an image's row, or 0."""
    name = s["attention"]
    if name == "sparse":
        return s["pattern"], s["pattern_by"] == "head"
    if name == "longformer":
        return f"band:{s['window']}" + (f"/dilated:{s['window']}x{s['dilation']}" if s["dilation"] > 1 else ""), True
    stride = s.get("stride") or row or math.ceil(math.sqrt(s["length"]))
    return {"local": "block:{block}", "image-local-1d": "block:{block}x{before}", "image-local-2d": "local2d:8x16x8x32",
            "bigbird": "block:{block}x1+global:{block}+random:{randoms}",
            "axial": f"band:{row}/column", "sparse-strided": f"band:{stride}+strided:{stride}",
            "sparse-fixed": f"block:{stride}+fixed:{stride}x{s.get('summary')}"}[name].format(**s), False

def sum_rule(q, k, v, log_weight, logit=None):
    """Linear attention: y_i = sum_j a_ij v_j / sum_j a_ij,  a_ij = phi(q_i).phi(k_j) w_j,  j <= i.

    It is the recurrence S_i = S_{i-1} + w_i phi(k_i) v_i^T, z_i = S_i with v = 1, y_i = S_i^T phi(q_i) / z_i.phi(q_i).
    With a gate g = 1 / (1 + exp(-logit)) the state decays (Peng 2021): S_i = g_i S_{i-1} + (1 - g_i) phi(k_i) v_i^T,
    that is w_j = (1 - g_j) g_{j+1} ... g_i. Logs of the logit do not round 1 - g to 0."""
    N = q.shape[1]
    weight = np.broadcast_to(log_weight, q.shape[:2])[:, None, :]  # [H,1,N], the logs of w_j
    if logit is not None:
        L = np.cumsum(-np.logaddexp(0, -logit), axis=-1)  # exp(L_i - L_j) = g_{j+1} ... g_i
        weight = weight + (-np.logaddexp(0, logit) - L)[:, None] + L[:, :, None]
    weight = np.where(np.tri(N) > 0, weight, -np.inf)
    weight = np.exp(weight - weight.max(axis=-1, keepdims=True))  # a factor of a row cancels
    return divide(q @ k.swapaxes(1, 2) * weight) @ v

def without_denominator(q, k, v, beta, log_decay, corrects):
    """S_t = a_t S_{t-1} + k_t (beta_t v_t)^T, y_t = S_t^T q_t; beta [H,N,1], log a [H,N,1], or [H,N,F]: a_t is diagonal. A rule
    that corrects (Schlag 2021; with a decay: Yang 2025) has v_t - (a_t S_{t-1})^T k_t in the place of v_t."""
    y = np.zeros_like(v)
    for h in range(len(q)):
        S = np.zeros((k.shape[-1], v.shape[-1]))
        for t in range(q.shape[1]):
            S *= np.exp(log_decay[h, t])[:, None]
            S += np.outer(k[h, t], beta[h, t] * (v[h, t] - corrects * (k[h, t] @ S)))
            y[h, t] = q[h, t] @ S
    return y

# ---- causal convolutions: x [N,C] -> [N,C], w [offsets,C] ----
def convolution(x, w, kind, width, channels):
    """y_n = sum_t w_t x_{m_t}: of the last four positions (1d), or of the last three and the pixels above on the
    right, above, and above on the left of the predicted pixel, as far as they are in the image (2d). Position 0 is the
    start or the class, so that the channel c of the pixel in row i and column j is at 1 + (i width + j) channels + c."""
    choose("the convolution", kind, ["1d", "2d"])
    y = np.zeros_like(x)
    for n in range(len(x)):
        read = [m if m >= 0 else None for m in range(n, n - (4 if kind == "1d" else 3), -1)]
        if kind == "2d":
            i, j, c = n // channels // width - 1, n // channels % width, n % channels
            read += [1 + (i * width + column) * channels + c if i >= 0 and 0 <= column < width else None
                     for column in (j + 1, j, j - 1)]
        for m, weight in zip(read, w, strict=True):
            if m is not None:
                y[n] += weight * x[m]
    return y

# ---- output heads: the outputs of a position -> the scores of all tokens ----
def logistics(outputs, levels):
    """The log of P(s) = sum_m p_m (sigma((x_s + h - mu_m) / c_m) - sigma((x_s - h - mu_m) / c_m)), ten components.

    x_s = 2 s / (levels - 1) - 1, h = 1 / (levels - 1), c = exp(max(log_scale, -7)); the first level has no lower
    bound, the last no upper one. The difference is taken as sigma(b) sigma(-a) (1 - exp(a - b)), which does not cancel."""
    share, mean, log_scale = np.split(outputs[:, None, :], 3, axis=-1)  # [N,1,10] each
    rate = np.exp(-np.maximum(log_scale, -7))
    s, last = np.arange(levels)[None, :, None], levels - 1
    a, b = (((2 * s + side) / last - 1 - mean) * rate for side in (-1, 1))
    below = np.where(s > 0, np.logaddexp(0, a), 0)        # -log sigma(-a)
    above = np.where(s < last, np.logaddexp(0, -b), 0)    # -log sigma(b)
    inside = np.where((s > 0) & (s < last), np.log(-np.expm1(a - b)), 0)
    return np.logaddexp.reduce(np.log(softmax(share)) + inside - below - above, axis=-1)

# ---- the Transformer ----
def layer_norm(x, weight, bias):
    centered = x - x.mean(axis=-1, keepdims=True)
    return weight * centered / np.sqrt((centered ** 2).mean(axis=-1, keepdims=True) + 1e-5) + bias

def gelu(x):  # The tanh form (Hendrycks & Gimpel 2016)
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

def sinusoidal(N, dim):
    d = np.arange(dim)
    angle = np.arange(N)[:, None] * 10000.0 ** -(d // 2 * 2 / dim)
    return np.where(d % 2 == 0, np.sin(angle), np.cos(angle))

# ---- byte pairs: merges stay inside of words ----
WORD = re.compile(rb"""[ ']?[A-Za-z\x80-\xff]+ | [ ]?[0-9]+ | [ ]?[^A-Za-z0-9\x80-\xff \t\r\n]+ | [\r\n]+
    | [ \t]+(?=[ ][^ \t\r\n]) | [ \t]+""", re.VERBOSE)

def words_of(text):
    place = 0
    while place < len(text):
        end = WORD.match(text, place).end()
        if end - place > 64:  # the most, and whole characters
            end = cut = place + 64
            while cut > end - 3 and text[cut] & 0xC0 == 0x80:
                cut -= 1
            end = end if text[cut] & 0xC0 == 0x80 else cut
        yield text[place:end]
        place = end

def join_pairs(word, pairs):
    while found := [pairs[pair] for pair in zip(word, word[1:]) if pair in pairs]:
        token, i = min(found), 0  # the earliest merge, everywhere from left to right
        while i + 1 < len(word):
            if pairs.get((word[i], word[i + 1])) == token:
                word[i:i + 2] = [token]
            i += 1
    return word

class Model:
    def __init__(self, tensors, settings, vocabulary):
        self.tensors, self.settings, self.used = tensors, settings, set()
        self.pairs = None
        if vocabulary.get("kind") == "byte_pairs":
            choose("the rule of words", vocabulary["words"], ["spaced"])
            self.pairs = {tuple(pair): 256 + i for i, pair in enumerate(vocabulary["merges"])}
            vocabulary = {"kind": "bytes", "tokens": list(range(256))}
        self.codes, self.of_bytes = vocabulary.get("tokens", []), vocabulary.get("kind") == "bytes"
        self.start = self.codes.index(10) if 10 in self.codes else 0  # before the first token: the newline
        of_image = settings.get("size", 0) ** 2 * settings.get("channels", 1)
        self.length = len(tensors.get("position_embedding.weight", ())) or settings.get("length") or of_image
        choose("the task", settings["task"], TASKS.split())
        self.logits(choose("what is predicted,", settings.get("predict", "pixels"), {"pixels": [0]}))  # refuses what is not known
        for name in tensors:
            if name not in self.used and not name.endswith(("codebook_counts", "codebook_sums", "centroid_sums")):  # of training
                raise ValueError(f"the tensor '{name}' is not known here")

    def tensor(self, name, default=None):
        self.used.add(name)
        if name not in self.tensors and default is None:
            raise ValueError(f"the tensor '{name}' is missing")
        return self.tensors.get(name, default)

    def linear(self, name, x):
        return x @ self.tensor(name + ".weight").T + self.tensor(name + ".bias", 0.0)

    def norm(self, name, x):
        return layer_norm(x, self.tensor(name + ".weight"), self.tensor(name + ".bias", 0.0))

    def convolution(self, name, x):
        kind = self.settings.get("layer_convolution", "none")
        if kind == "none":
            return x
        width, channels = self.settings.get("size", 0), self.settings.get("channels", 1)
        if self.computed is None:
            return convolution(x, self.tensor(name + ".weight"), kind, width, channels)
        whole = np.zeros((self.computed[-1] + 1, x.shape[1]))  # with zeros at the positions that are skipped
        whole[self.computed] = x
        return convolution(whole, self.tensor(name + ".weight"), kind, width, channels)[self.computed]

    def grid(self):  # P[n] + R[row] + K[column] + C[channel] of the token that position n predicts
        position = self.tensor("position_embedding.weight")
        width, channels = self.settings["size"], self.settings.get("channels", 1)
        n = np.arange(len(position))
        position = position + self.tensor("row_embedding.weight")[n // (width * channels)]
        position = position + self.tensor("column_embedding.weight")[n // channels % width]
        return position + (self.tensor("channel_embedding.weight")[n % channels] if channels > 1 else 0)

    def of_class(self, first):  # C[class], the same row at every position; the last is for other tokens
        kind = self.settings.get("class_embedding", "first")
        if choose("the class embedding", kind, ["first", "every"]) == "first":
            return 0
        table, label = self.tensor("class_embedding.weight"), first - self.settings["levels"]
        return table[label if 0 <= label < len(table) - 1 else -1]

    def heads(self, x):  # [N, H D] -> [H,N,D]
        return x.reshape(len(x), self.settings["heads"], -1).swapaxes(0, 1)

    def attention(self, block, settings, x):
        x = self.norm(block + "norm1", self.convolution(block + "convolution1", x))
        reads = {"lsh": "qv", "dense": "qv", "random": "v", "average": "v"}.get(settings.get("synth") if settings["attention"] == "synthesizer"
                                                                              else settings["attention"], "qkv")
        parts = np.split(self.linear(block + reads, x), len(reads), axis=-1)
        q, k, v = (self.heads(parts[n]) for n in (0, max(len(reads) - 2, 0), -1))  # what is not read is another
        if settings["attention"] in ("softmax", "topk", "lsh", "informer", "prior", "routing", *PATTERNS):
            q, k = self.turned(q), self.turned(k)
        kinds = {"softmax": lambda _, settings, x, *qkv: softmax_attention(*qkv, windowed(len(x), settings.get("window", 0))),
                 "topk": lambda _, settings, x, q, k, v: softmax_attention(q, k, v, top_keys(q, k, settings["keys"])),
                 "average": lambda _, settings, x, q, k, v: divide(np.tri(len(x))) @ v, "bpt": self.tree, "mca": self.compressed,
                 "pooling": self.pooled, "prior": self.biased, "synthesizer": self.tabled,
                 "lsh": self.hashed, "routing": self.routed, "sinkhorn": self.sorted, "informer": self.informer, "luna": self.luna, "vq": self.quantized,
                 "linear": self.linear_attention, "performer": self.performer, "soft-vq": self.quantized,
                 **dict.fromkeys(PATTERNS, self.sparse)}
        y = choose("the attention", settings["attention"], kinds)(block, settings, x, q, k, v)
        return self.linear(block + "out", self.output(block, settings, x, y).swapaxes(0, 1).reshape(len(x), -1))

    def turned(self, x):  # Rotary positions (Su 2021): pairs (x_d, x_{d+W/2}) of row n by the angle n 10000^(-2d/W)
        n, h = np.arange(x.shape[1])[:, None] * (self.settings["positions"] == "rotary"), x.shape[2] // 2
        z = (x[..., :h] + 1j * x[..., h:2 * h]) * np.exp(1j * n * 10000.0 ** (-2 * np.arange(h) / x.shape[2]))
        return np.concatenate([z.real, z.imag, x[..., 2 * h:]], axis=-1)

    def output(self, block, settings, x, y):
        """y, or rms(y) weight silu(W x) of each head, of softmax attention y silu(W x)."""
        if choose("the output", self.settings.get("attention_output", "plain"), ["plain", "gated"]) == "plain":
            return y
        gate = self.heads(self.linear(block + "output_gate", x))
        if settings["attention"] not in ("softmax", "topk", "informer", "routing", "sinkhorn", *PATTERNS):
            weight = self.tensor(block + "output_norm.weight").reshape(len(y), 1, -1)
            y = weight * y / np.sqrt((y ** 2).mean(axis=-1, keepdims=True) + 1e-6)
        return y * gate / (1 + np.exp(-gate))

    def sparse(self, block, settings, x, q, k, v):
        width, channels = self.settings.get("size", 0), self.settings.get("channels", 1)
        pattern, by_head = pattern_of(settings, width * channels)
        layer, alternatives, keys = int(block.split(".")[1]), pattern.split("/"), []
        for head in range(len(q)):
            turn = head if by_head else layer // len(attentions(self.settings))
            random = lambda r: random_blocks(r, len(x), settings["block"], settings["seed"], layer * len(q) + head)
            keys.append(pattern_keys(alternatives[turn % len(alternatives)], len(x), width, channels, random))
        return softmax_attention(q, k, v, np.stack(keys))

    def hashed(self, block, settings, x, q, k, v):
        """Keys q_j / |q_j| less than a window before i in its bucket, argmax of [x R, -x R], of some round; else i (Kitaev 2020)."""
        R = self.tensor(block + "attention.rotations", np.zeros((len(q), settings["rounds"], q.shape[-1], 1)))
        u = np.einsum("hnd,hrdc->hrnc", q.astype(np.float32).astype(np.float64), R)
        buckets = np.concatenate([u, -u], axis=-1).argmax(axis=-1)  # [H,rounds,N]
        same = (buckets[..., None] == buckets[..., None, :]) & (np.tri(len(x), k=-1) > 0)
        rank = same.sum(axis=-1)
        keys = (same & (rank[..., None] - rank[..., None, :] < settings["window"])).any(axis=1)
        keys |= (np.eye(len(x)) > 0) & ~keys.any(axis=-1, keepdims=True)
        return softmax_attention(q, divide(q, "unit") * math.sqrt(q.shape[-1]), v, keys)

    def routed(self, block, settings, x, q, k, v):
        """The last `window` keys of the query's cluster, argmax of x.mu, and its own; near keys in the first heads (Roy 2020)."""
        mu = self.tensor(block + "attention.centroids").swapaxes(1, 2)  # [H,D,C]
        of_q, of_k = ((rows.astype(np.float32).astype(np.float64) @ mu).argmax(axis=-1) for rows in (q, k))
        same = (of_q[..., None] == of_k[:, None, :]) & (np.tri(len(x)) > 0)
        rank = same.cumsum(axis=-1)
        keys = same & (rank[..., -1:] - rank < settings["window"]) | (np.eye(len(x)) > 0)
        keys[:settings["local_heads"]] = windowed(len(x), settings["window"])
        return softmax_attention(q, k, v, keys)

    def sorted(self, block, settings, x, q, k, v):
        """The block of i up to i, and sum_n S_mn of the blocks n before block m, S of causal Sinkhorn iterations (Tay 2020)."""
        (H, N, D), b, i = q.shape, settings["block"], np.arange(len(x))[:, None]
        C, own = N // b, i // b == np.arange(-(-N // b) * b) // b
        k_means = k[:, :C * b].reshape(H, C, b, D).mean(axis=2).swapaxes(1, 2) / math.sqrt(D) / settings["sort_temperature"]
        S = np.exp((divide(np.tri(N))[::b] @ q) @ k_means) * np.tri(own.shape[1] // b, C, k=-1)
        for _ in range(settings["iterations"]):
            S = divide(np.divide(S, S.cumsum(axis=1), out=np.zeros_like(S), where=S > 0))
        k, v = (np.concatenate([(divide(S) @ y[:, :C * b].reshape(H, C, b * D)).reshape(H, -1, D), y], axis=1) for y in (k, v))
        return softmax_attention(q, k, v, np.concatenate([own & (i >= b), own[:, :N] & np.tri(N, dtype=bool)], axis=1))

    def informer(self, block, settings, x, q, k, v):
        """Softmax attention where max - mean of U random scores is one of the U largest so far, else the mean of v (Zhou 2021)."""
        H, N = q.shape[:2]
        U = min(self.length, settings["factor"] * max(1, math.ceil(math.log(self.length))))
        h, i, n = np.ogrid[:H, :N, :U]
        j = random_below(settings["seed"], PROBE, int(block.split(".")[1]) * H + h, i, n, i + 1)
        rounded_q, rounded_k = (rows.astype(np.float32).astype(np.float64) for rows in (q, k))
        scores = np.take_along_axis(rounded_q @ rounded_k.swapaxes(1, 2), j, axis=-1)
        M = scores.max(axis=-1) - scores.mean(axis=-1)
        before = ((M[:, None, :] >= M[:, :, None]) & (np.tri(N, k=-1) > 0)).sum(axis=-1)
        return softmax_attention(q * (before < U)[..., None], k, v, np.tri(N) > 0)  # scores of 0 make a mean
    def luna(self, block, settings, x, q, k, v):
        """y_t = sum_s softmax_s(q_t.K_ts / sqrt(D)) h_ts, K_t = (1 / t) sum_j a_js k_j, j <= t, h_t with v_j (Ma 2021)."""
        p, N, root = self.tensor(block + "attention.slots"), len(x), math.sqrt(q.shape[-1])  # p [H,m,D]
        a, t = np.logaddexp2(0, k @ p.swapaxes(1, 2) / root), np.arange(1, N + 1)[:, None]
        weights = softmax((q @ k.swapaxes(1, 2) * np.tri(N)) @ a / (t * root))
        return (weights @ a.swapaxes(1, 2) * np.tri(N)) @ v / t

    def tabled(self, block, settings, x, q, k, v):
        """Scores of tables of positions: t_i.u_j, or relu(q_i).p_j + c_j (Tay 2020)."""
        random = choose("the synthesizer", settings["synth"], ["random", "dense"]) == "random"
        first, second = (self.tensor(f"{block}attention.tables_{name}")[:, :len(x)] for name in ("qk" if random else "kc"))
        scores = first @ second.swapaxes(1, 2) if random else np.maximum(q, 0) @ first.swapaxes(1, 2) + second[:, None]
        return softmax(np.where(np.tri(len(x)), scores, -np.inf)) @ v

    def biased(self, block, settings, x, q, k, v):
        """Softmax of q_i.k_j / sqrt(D) + b: b = -n^2 / 2 sigma^2 (Yang 2018), or the log of a span's ramp (Sukhbaatar 2019), n = i - j."""
        n = np.arange(len(x))[:, None] - np.arange(len(x))
        if choose("the prior", settings["prior"], ["gaussian", "span"]) == "gaussian":
            bias = -n ** 2 / 2 * np.exp(-2 * self.tensor(block + "attention.sigma"))[:, None, None]
        else:
            z = self.tensor(block + "attention.span")[:, None, None]
            m = np.clip((z * self.length - n) / settings["ramp"] + 1, 0, 1)
            bias = np.log(np.where(n == 0, 1, m), out=np.full(m.shape, -np.inf), where=(m > 0) | (n == 0))
        return softmax(np.where(n >= 0, q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]) + bias, -np.inf)) @ v

    def compressed(self, block, settings, x, q, k, v):
        """Past blocks of r rows as sum_t W_t x_t, and the rows of the current block (Liu 2018)."""
        N, r = len(x), settings["ratio"]
        def joined(rows, W):
            blocks = rows[:, :N // r * r].reshape(len(rows), N // r, r, rows.shape[-1])
            return np.concatenate([np.einsum("hctd,hted->hce", blocks, W), rows], axis=1)
        i, j = np.arange(N)[:, None], np.arange(N)
        past = (i + 1) // r
        keys = np.concatenate([j[:N // r] < past, (j >= past * r) & (j <= i)], axis=1)
        return softmax_attention(q, *(joined(rows, self.tensor(block + "attention.compress_" + name)) for rows, name in ((k, "k"), (v, "v"))), keys)

    def pooled(self, block, settings, x, q, k, v):
        """Softmax over a window, plus softmax over means or maxima of spans within `outer` positions (Zhang 2021)."""
        N, size, i = len(x), settings["pool_size"], np.arange(len(x))[:, None]
        first = np.arange(0, max(N - size + 1, 0), settings["pool_stride"])
        pool = choose("the pooling", settings["pooling"], {"mean": np.mean, "max": np.max})
        k_spans, v_spans = (pool(rows[:, first[:, None] + np.arange(size)], axis=2) for rows in (k, v))
        spans = (first > i - settings["outer"]) & (first + size <= i + 1)
        some = spans.any(axis=1)  # the rows with a span
        y = softmax_attention(q, k, v, windowed(N, settings["window"]))
        y[:, some] += softmax_attention(q[:, some], k_spans, v_spans, spans[some]) if some.any() else 0
        return y

    def tree(self, block, settings, x, q, k, v):
        """Softmax over the means of spans of 2^l rows, each with its number of rows as a factor: `keys` or one more a level (Ye 2019)."""
        y, levels = np.zeros_like(v), [(k, v)]
        while levels[-1][0].shape[1] > 1:
            levels.append([(rows[:, 0:-1:2] + rows[:, 1::2]) / 2 for rows in levels[-1]])
        for i in range(len(x)):
            end, level, parts = i + 1, 0, []
            while end > 0:
                count = settings["keys"] + (end - settings["keys"]) % 2
                first = max(end - count, 0)
                parts.append([rows[:, first:end] for rows in levels[level]] + [np.full(end - first, level * math.log(2))])
                end, level = first // 2, level + 1
            keys, values = (np.concatenate([part[n] for part in parts], axis=1) for n in (0, 1))
            scores = np.einsum("hd,hnd->hn", q[:, i], keys) / math.sqrt(q.shape[-1]) + np.concatenate([part[2] for part in parts])
            y[:, i] = np.einsum("hn,hnm->hm", softmax(scores), values)
        return y

    def linear_attention(self, block, settings, x, q, k, v):
        maps = {"elu": elu, "relu": relu, "exp": from_logs, "square": square, "identity": lambda rows: (rows, 0),
                "dpfp": lambda rows: dpfp(rows, settings["nu"]), "silu": lambda rows: (rows / (1 + np.exp(-rows)), 0)}
        phi, D = choose("the feature", settings["feature"], maps), q.shape[-1]
        rule = choose("the rule", settings["rule"], ["sum", "gated", "delta", "gated-delta", "decay"])
        (q, _), (k, log_weight) = phi(q), phi(k)  # the weight of a query cancels
        decay, corrects, norm = settings.get("decay", "head"), rule != "decay", settings.get("key_norm", "sum")
        log_rate = self.tensor(block + "attention.log_rate", np.full(len(q), 0 if corrects else -np.log(16)))
        log_a = np.log1p(-2.0 ** (-5 - np.arange(len(q))))[:, None, None] * (decay == "fixed") + 0 * v[..., :1]
        x = self.linear(block + "gate_down", x) if decay == "channel" else x
        ungated = rule == "sum" or (rule, decay) == ("decay", "fixed")
        u = log_a if ungated else self.heads(self.linear(block + "gate", x))  # [H,N,gates]
        if rule in ("sum", "gated"):
            return sum_rule(q, k, v, log_weight, u[..., 0] if rule == "gated" else None)
        beta = np.logaddexp(0, u) if decay == "head" else 1 + 0 * log_a
        beta = settings.get("beta_range", 1) / (1 + np.exp(-u[..., :1])) if corrects else beta
        if rule != "delta" and decay != "fixed":  # -A softplus(u); without a tensor A log sigmoid(u)
            u = u[..., corrects:] * (1 if block + "attention.log_rate" in self.tensors else -1)
            log_a = -np.exp(log_rate)[:, None, None] * np.logaddexp(0, u)
        q, k = self.turned(divide(q, norm)) * D ** (0 if norm == "sum" else -0.5), self.turned(divide(k, norm))
        return without_denominator(q, k, v, beta, log_a, corrects)

    def performer(self, block, settings, x, q, k, v):
        omega, feature = self.tensor(block + "attention.omega"), settings["feature"]
        (q, _), (k, log_weight) = performer(q, omega, feature), performer(k, omega, feature)
        return sum_rule(q, k, v, log_weight)

    def quantized(self, block, settings, x, q, k, v):
        """a_ij = sum_f exp(q_i.c_f) p(f | k_j), where p of vq is 1 for the nearest code."""
        codes = self.tensor(block + "attention.codebook")  # [H,F,D]
        distance = ((k[:, :, None] - codes[:, None]) ** 2).sum(axis=-1)
        if settings["attention"] == "vq":
            p = np.eye(codes.shape[1])[distance.argmin(axis=-1)]  # Lingle 2023
        else:
            sigma, temperature = (self.tensor(block + "attention." + name) for name in ("sigma", "temperature"))
            p = softmax(-distance / (2 * sigma ** 2 * temperature))  # Su 2023
        return sum_rule(from_logs(q @ codes.swapaxes(1, 2))[0], p, v, 0)

    def feed_forward(self, block, x):
        normed = self.norm(block + "norm2", self.convolution(block + "convolution2", x))
        return self.linear(block + "down", gelu(self.linear(block + "up", normed)))

    def not_blank(self, tokens):
        """The positions whose token has one that is not 0 near it: in the two pixels before it or in five of the two rows
        above, by the distance in the sequence. The blocks compute these, and position 0."""
        width, C = self.settings["size"], self.settings.get("channels", 1)
        near = [n for first, last in ((1, 2), (width - 2, width + 2), (2 * width - 2, 2 * width + 2))
                for n in range(max(1, C * first - C + 1), C * last + C)]
        ink = [0 < token < self.settings["levels"] for token in tokens[1:]]
        return [n for n in range(len(tokens)) if n == 0 or any(ink[n - o] for o in near if n >= o)]

    def blank(self, embedded, x):
        """x of all positions: of the others u + down(gelu(up(norm(u)))), u their embedding plus x of the last computed one."""
        u = embedded + x[np.searchsorted(self.computed, np.arange(len(embedded)), side="right") - 1]
        y = u + self.linear("blank.down", gelu(self.linear("blank.up", self.norm("blank.norm2", u))))
        y[self.computed] = x
        return y

    def logits(self, tokens):
        """The scores of all tokens after each of `tokens`: [N, vocabulary]."""
        table, N, settings = self.tensor("token_embedding.weight"), len(tokens), self.settings
        positions = {"learned": lambda: self.tensor("position_embedding.weight"),
                     "sinusoidal": lambda: sinusoidal(N, table.shape[1]), "learned+grid": self.grid,
                     "rotary": lambda: np.zeros((self.length, 1)), "none": lambda: np.zeros((N, 1))}
        position = choose("the kind of positions", settings["positions"], positions)()
        if not 1 <= N <= len(position) or not 0 <= min(tokens) <= max(tokens) < len(table):
            raise ValueError(f"needs 1 to {len(position)} tokens from 0 to {len(table) - 1}")
        x = embedded = table[np.asarray(tokens)] + self.of_class(tokens[0]) + position[:N]
        self.computed = self.not_blank(tokens) if settings.get("skip_blank") else None
        x = x if self.computed is None else x[self.computed]
        items = attentions(settings)
        blocks = [(f"blocks.{layer}.", items[layer % len(items)]) for layer in range(settings["layers"])]
        if settings["reversible"]:  # two streams, each of which changes the other
            one = two = x
            for block, own in blocks:
                one = one + self.attention(block, own, two)
                two = two + self.feed_forward(block, one)
            x = one + two
        else:
            for block, own in blocks:
                x = x + self.attention(block, own, x)
                x = x + self.feed_forward(block, x)
        x = self.norm("norm", x if self.computed is None else self.blank(embedded, x))
        # A tied output is the table of the tokens that are predicted, which come before the start tokens.
        outputs = x @ table[:settings.get("levels")].T if settings["tie"] else self.linear("output_head", x)
        heads = {"categorical": lambda: outputs, "logistics": lambda: logistics(outputs, settings["levels"])}
        return choose("the output head", settings["output_head"], heads)()

    def encode(self, text):
        if not self.codes:
            raise ValueError(f"the task {self.settings['task']} has no text: pass tokens, which are numbers")
        codes = text if isinstance(text, bytes) else text.encode() if self.of_bytes else [ord(c) for c in text]
        for code in set(codes) - set(self.codes):
            raise ValueError(f"{chr(code)!r} (U+{code:04X}) is not in the vocabulary of {len(self.codes)} tokens")
        if self.pairs is not None:
            return [token for word in words_of(bytes(codes)) for token in join_pairs(list(word), self.pairs)]
        return [self.codes.index(code) for code in codes]

    def decode(self, tokens):
        if self.pairs is not None:
            parts = {token: pair for pair, token in self.pairs.items()}
            split = lambda token: split(parts[token][0]) + split(parts[token][1]) if token in parts else [token]
            tokens = [byte for token in tokens for byte in split(token)]
        codes = [self.codes[token] for token in tokens]
        return bytes(codes).decode(errors="replace") if self.of_bytes else "".join(map(chr, codes))

    def split(self, text):
        """The tokens of a file's bytes, and the number of the first of the last tenth: of bytes for byte pairs, up to a
        whole character, else of tokens. `--tokenizer bytes` keeps a byte order mark."""
        text = text if self.settings.get("tokenizer") == "bytes" else text.removeprefix(b"\xef\xbb\xbf")
        if self.pairs is None:
            tokens = self.encode(text if self.of_bytes else text.decode())
            return tokens, len(tokens) * 9 // 10
        cut = len(text) * 9 // 10
        back = next((n for n in range(1, min(4, cut) + 1) if text[cut - n] & 0xC0 != 0x80), 0)
        lead = text[cut - back] if back else 0
        if 0xC0 <= lead < 0xF8 and (4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2) > back:
            cut -= back
        train = self.encode(text[:cut])
        return train + self.encode(text[cut:]), len(train)

    def sample(self, prompt, tokens=100, temperature=1.0, top_k=0, top_p=1.0, greedy=False, seed=1):
        """The prompt, a text or a list of tokens, and what follows. Past its length the model reads the last half."""
        if tokens < 0 or not temperature > 0 or top_k < 0 or not 0 < top_p <= 1:
            raise ValueError("tokens and top_k are at least 0, temperature is above 0, top_p above 0 and at most 1")
        result = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        random, first, window = np.random.default_rng(seed), len(result), result[-self.length:] or [self.start]
        for _ in range(tokens):
            scores = self.logits(window)[-1]
            order = np.argsort(-scores, kind="stable")[:1 if greedy else top_k or None]
            share = softmax(scores[order] / temperature)
            share[1:] *= np.cumsum(share)[:-1] < top_p  # the fewest tokens whose probabilities sum to top_p
            result.append(int(random.choice(order, p=share / share.sum())))
            window = (window + result[-1:])[-(self.length if len(window) < self.length else max(1, self.length // 2)):]
        return prompt + self.decode(result[first:]) if isinstance(prompt, str) else result

    def evaluate(self, tokens, first=0):
        """The mean loss of tokens[first:] in nats and the share of right guesses, in windows that do not overlap."""
        if len(tokens) <= first:
            raise ValueError("there are no tokens to evaluate")
        before, losses, right = [self.start, *tokens], [], []
        for begin in range(first, len(tokens), self.length):
            targets = np.asarray(tokens[begin:begin + self.length])
            scores = self.logits(before[begin:begin + len(targets)])
            losses.extend(np.logaddexp.reduce(scores, axis=-1) - scores[np.arange(len(targets)), targets])
            right.extend(scores.argmax(axis=-1) == targets)
        return float(np.mean(losses)), float(np.mean(right))

def load(path):
    return Model(*read_file(pathlib.Path(path)))

def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or sys.argv[2:] in (["sample"], ["eval"]):
        sys.exit(__doc__)
    command, *words = sys.argv[2:] or sys.stdin.read().split() or [""]
    try:
        model = load(sys.argv[1])
        if command == "sample":
            options = dict(word.split("=") for word in words[1:])
            print(model.sample(words[0], **{key: json.loads(value) for key, value in options.items()}))
        elif command == "eval":
            loss, accuracy = model.evaluate(*model.split(pathlib.Path(words[0]).read_bytes()))
            print(f"loss {loss:.4f} nats, {loss / math.log(2):.4f} bits, accuracy {accuracy:.4f}")
        else:
            for scores in model.logits([int(word) for word in (command, *words)]):
                print(*(f"{score:.7g}" for score in scores))
    except (ValueError, TypeError, KeyError, IndexError, OSError) as error:
        sys.exit(f"linea_model.py: {error}")

if __name__ == "__main__":
    main()
