// Attention in which query i sees the keys first_i <= j < last_i and, of these, the chosen blocks of
// its query block, forward and backward.
//
// A block is LANES queries: one to a lane of a vector, so that softmax needs no sums across lanes.
// Its scores S^T (keys, LANES) are made CHUNK keys at a time and never leave the first-level cache;
// keys and values are read where they stand, whatever the distance of their rows. Forward keeps a
// running maximum and sum (online softmax, 1805.02867), backward takes P = exp(S - L) anew. A few
// queries, as in decoding, are each answered alone, with the d numbers of a key in the lanes.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace {

constexpr int W = 8;  // floats to a vector
constexpr int VECS = 3;
constexpr int LANES = W * VECS;  // queries to a block: 4 keys x 3 vectors fill 12 registers
constexpr int CHUNK = 48;        // keys at a time
constexpr int SPAN = 10 * LANES; // queries to a task of the forward pass
constexpr int FEW = 4;           // queries that are answered one by one
constexpr float NEVER = -std::numeric_limits<float>::infinity();

typedef float Vec __attribute__((vector_size(4 * W)));
typedef int32_t Ints __attribute__((vector_size(4 * W)));

template <typename To = Vec, typename From>
inline To load(const From* p) {
  To x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

inline void store(float* p, Vec x) { std::memcpy(p, &x, sizeof x); }

// Stays in a register: compilers would read it anew for each product, and loads are the bottleneck.
inline Vec held(const float* p) {
  Vec x = load(p);
#ifdef __AVX__
  asm("" : "+x"(x));
#endif
  return x;
}

// e^x to 2e-7 (Cephes' polynomial after x = n log 2 + r); exactly 0 below -87.
inline Vec exponential(Vec x) {
  const Ints gone = x < -87.0f;
  x = gone ? Vec{} : x;
  const Vec shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: n stands in the last bits
  const Vec n = shifted - 12582912.0f;
  const Vec r = x - n * 0.693145752f - n * 1.42860677e-6f;
  Vec y = r * 1.98756912e-4f + 1.39819994e-3f;
  y = y * r + 8.33345205e-3f;
  y = y * r + 4.16657962e-2f;
  y = y * r + 1.66666657e-1f;
  y = y * r + 0.5f;
  y = y * r * r + r + 1.0f;
  const Ints scaled = load<Ints>(&y) + (load<Ints>(&shifted) << 23);
  return gone ? Vec{} : load(&scaled);
}

inline float sum_of(Vec x) {
  float total = 0;
  for (int l = 0; l < W; ++l) total += x[l];
  return total;
}

// tanh to 2e-7 of its value (Cephes' polynomial below 0.625).
inline Vec hyperbolic_tangent(Vec x) {
  const Vec size = x < 0.0f ? -x : x, z = x * x;
  Vec small = z * -5.70498872745e-3f + 2.06390887954e-2f;
  small = small * z - 5.37397155531e-2f;
  small = small * z + 1.33314422036e-1f;
  small = small * z - 3.33332819422e-1f;
  small = small * z * x + x;
  const Vec capped = size > 20.0f ? Vec{} + 20.0f : size;
  const Vec large = 1.0f - 2.0f / (exponential(capped + capped) + 1.0f);
  return size < 0.625f ? small : x < 0.0f ? -large : large;
}

// R x C vectors that stay in registers: the inner loop of every product here.
template <int R, int C>
struct Sums {
  Vec at[R][C] = {};

  void read(const float* p, int64_t stride) {
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) at[r][c] = load(p + r * stride + c * W);
  }

  void write(float* p, int64_t stride) const {
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) store(p + r * stride + c * W, at[r][c]);
  }

  // Adds the outer product of R numbers, `step` apart, and a row of C vectors.
  void add(const float* numbers, int64_t step, const float* row) {
    Vec x[C];
    for (int c = 0; c < C; ++c) x[c] = held(row + c * W);
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) at[r][c] += x[c] * numbers[r * step];
  }
};

// s (keys, LANES) = k (keys, d) panel (d, LANES)
template <int KEYS = 4>
inline void scores(const float* panel, const float* k, int64_t stride, int64_t d, int keys,
                   float* s) {
  int j = 0;
  for (; j + KEYS <= keys; j += KEYS) {
    Sums<KEYS, VECS> sum;
    for (int64_t t = 0; t < d; ++t) sum.add(k + j * stride + t, stride, panel + t * LANES);
    sum.write(s + j * LANES, LANES);
  }
  if (j < keys) scores<1>(panel, k + j * stride, stride, d, keys - j, s + j * LANES);
}

// s = cap tanh(s / cap), and its derivative by s where there is room for it
inline void cap_scores(float* s, int keys, float cap, float* slope) {
  for (int place = 0; place < keys * LANES; place += W) {
    const Vec y = hyperbolic_tangent(load(s + place) / cap);
    store(s + place, y * cap);
    if (slope) store(slope + place, 1.0f - y * y);
  }
}

// total (d, LANES) += v^T (d, keys) s (keys, LANES)
inline void gather(const float* s, const float* v, int64_t stride, int64_t d, int keys,
                   float* total) {
  for (int64_t t = 0; t < d; t += 4) {
    Sums<4, VECS> sum;
    sum.read(total + t * LANES, LANES);
    for (int j = 0; j < keys; ++j) sum.add(v + j * stride + t, 1, s + j * LANES);
    sum.write(total + t * LANES, LANES);
  }
}

// total (keys, d) += s (keys, LANES) x (LANES, d)
template <int KEYS = 6>
inline void scatter(const float* s, const float* x, int64_t d, int keys, float* total,
                    int64_t stride) {
  int j = 0;
  for (; j + KEYS <= keys; j += KEYS)
    for (int64_t t = 0; t < d; t += 2 * W) {
      Sums<KEYS, 2> sum;
      sum.read(total + j * stride + t, stride);
      for (int i = 0; i < LANES; ++i) sum.add(s + j * LANES + i, LANES, x + i * d + t);
      sum.write(total + j * stride + t, stride);
    }
  if (j < keys) scatter<1>(s + j * LANES, x, d, keys - j, total + j * stride, stride);
}

struct Rows {  // (n, d) of one head
  float* start;
  int64_t stride;
  Rows(const at::Tensor& x, int64_t b, int64_t h)
      : start(x.data_ptr<float>() + b * x.stride(0) + h * x.stride(1)), stride(x.stride(2)) {}
  float* operator[](int64_t i) const { return start + i * stride; }
};

struct Chosen {  // blocks of `size` keys for each run of `queries` queries; negative ones are none
  const int32_t* start = nullptr;  // (n / queries, most) of a head, ascending; null: all keys
  int64_t most = 0, queries = std::numeric_limits<int64_t>::max(), size = 0;
  int64_t origin = 0;  // where block 0 begins

  // Calls run(j, keys) for each chunk of the keys low .. high that are chosen for query `row`.
  template <typename Run>
  void each(int64_t row, int64_t low, int64_t high, const Run& run) const {
    if (!start) return chunks(low, high, run);
    const int32_t* blocks = start + row / queries * most;
    for (int64_t c = 0; c < most; ++c) {
      if (blocks[c] < 0) continue;
      const int64_t from = origin + blocks[c] * size;
      int64_t to = from + size;  // neighbours are one run
      for (; c + 1 < most && blocks[c + 1] >= 0 && origin + blocks[c + 1] * size == to; ++c) to += size;
      chunks(std::max(low, from), std::min(high, to), run);
    }
  }

  template <typename Run>
  static void chunks(int64_t from, int64_t to, const Run& run) {
    for (int64_t j = from; j < to; j += CHUNK)
      run(j, static_cast<int>(std::min<int64_t>(CHUNK, to - j)));
  }
};

struct Head;

struct Block {  // queries row .. row + rows of one query block, and what they see
  int64_t row, low, high = 0, all_low = 0, all_high;  // some see low .. high, all see all_low ..
  int rows;
  int32_t first[LANES] = {}, last[LANES] = {};  // of lanes without a query: nothing

  Block(const Head& head, int64_t row, int64_t end);

  // Puts `instead` where a lane does not see keys j .. j + keys.
  void hide(float* s, int64_t j, int keys, float instead) const {
    if (rows == LANES && j >= all_low && j + keys <= all_high) return;
    for (int r = 0; r < keys; ++r)
      for (int c = 0; c < VECS; ++c) {
        const int32_t key = static_cast<int32_t>(j + r);
        const Ints from = load<Ints>(first + c * W), to = load<Ints>(last + c * W);
        float* p = s + r * LANES + c * W;
        store(p, (from <= key) & (to > key) ? load(p) : Vec{} + instead);
      }
  }

  // Its rows of x as (d, LANES), times `scale`; 0 in lanes without a query.
  void turn(const Rows& x, int64_t d, float scale, float* panel) const {
    for (int i = 0; i < rows; ++i)
      for (int64_t t = 0; t < d; ++t) panel[t * LANES + i] = x[row + i][t] * scale;
  }
};

struct Head {  // one head of one sample
  Rows q, k, v, out;
  float* lse;
  const int32_t* ranges;
  Chosen chosen;
  int64_t n, keys, d;
  float scale, cap;  // scores s become cap tanh(s / cap), unless cap is 0
  float sink;        // one more score that has no value, unless -inf
  const float* dlse = nullptr;  // the gradient of lse, where there is one

  // dS is P times dO V^T - dO . O + dlse of its row.
  float added(int64_t row) const { return dlse ? dlse[row] : 0; }

  // The end of the queries from `row` on that are answered together.
  int64_t end(int64_t row) const {
    const int64_t left = chosen.queries - row % chosen.queries;
    return std::min(n, row + std::min<int64_t>(LANES, left));
  }

  void finish(int64_t row, float most, float whole, const float* sum, int64_t step) const {
    const float higher = std::max(most, sink);
    const float kept = higher == NEVER ? 0 : std::exp(most - higher);
    whole *= kept;
    if (sink != NEVER) whole += std::exp(sink - higher);
    lse[row] = whole > 0 ? higher + std::log(whole) : NEVER;
    const float share = whole > 0 ? kept / whole : 0;
    for (int64_t t = 0; t < d; ++t) out[row][t] = sum[t * step] * share;
  }
};

Block::Block(const Head& head, int64_t row, int64_t end)
    : row(row), low(head.keys), all_high(head.keys), rows(end - row) {
  for (int i = 0; i < rows; ++i) {
    first[i] = head.ranges[row + i];
    last[i] = head.ranges[head.n + row + i];
    low = std::min<int64_t>(low, first[i]);
    high = std::max<int64_t>(high, last[i]);
    all_low = std::max<int64_t>(all_low, first[i]);
    all_high = std::min<int64_t>(all_high, last[i]);
  }
}

// One query by itself: d is in the lanes. s_j = q . x_j of so many keys.
inline void row_scores(const float* q, const Rows& x, int64_t j, int keys, int64_t d, float* s) {
  for (int r = 0; r < keys; r += 4) {
    const int some = std::min(4, keys - r);
    Vec products[4] = {};
    const float* at[4];
    for (int c = 0; c < 4; ++c) at[c] = x[j + r + std::min(c, some - 1)];
    for (int64_t t = 0; t < d; t += W)
      for (int c = 0; c < 4; ++c) products[c] += load(q + t) * load(at[c] + t);
    for (int c = 0; c < some; ++c) s[r + c] = sum_of(products[c]);
  }
}

// total += sum of s_j x_j
inline void row_gather(const float* s, const Rows& x, int64_t j, int keys, int64_t d,
                       float* total) {
  for (int r = 0; r < keys; r += 4) {
    const int some = std::min(4, keys - r);
    const float* at[4];
    float p[4] = {};
    for (int c = 0; c < 4; ++c) at[c] = x[j + r + std::min(c, some - 1)];
    for (int c = 0; c < some; ++c) p[c] = s[r + c];
    for (int64_t t = 0; t < d; t += W) {
      Vec sum = load(total + t);
      for (int c = 0; c < 4; ++c) sum += load(at[c] + t) * p[c];
      store(total + t, sum);
    }
  }
}

void forward_row(const Head& head, int64_t row) {
  const int64_t d = head.d;
  std::vector<float> room(2 * d + CHUNK);
  float *q = room.data(), *sum = q + d, *s = sum + d;
  for (int64_t t = 0; t < d; ++t) q[t] = head.q[row][t] * head.scale;
  float most = NEVER, whole = 0;
  head.chosen.each(row, head.ranges[row], head.ranges[head.n + row], [&](int64_t j, int keys) {
    row_scores(q, head.k, j, keys, d, s);
    float higher = most;
    for (int r = 0; r < keys; ++r) {
      if (head.cap > 0) s[r] = head.cap * std::tanh(s[r] / head.cap);
      higher = std::max(higher, s[r]);
    }
    const float shift = higher == NEVER ? 0 : higher, kept = std::exp(most - shift);
    whole *= kept;
    for (int64_t t = 0; kept != 1 && t < d; ++t) sum[t] *= kept;
    most = higher;
    for (int r = 0; r < keys; r += W) store(s + r, exponential(load(s + r) - shift));
    for (int r = 0; r < keys; ++r) whole += s[r];
    row_gather(s, head.v, j, keys, d, sum);
  });
  head.finish(row, most, whole, sum, 1);
}

void backward_row(const Head& head, int64_t row, const Rows& dout, const Rows& dq, const Rows& dk,
                  const Rows& dv) {
  const int64_t d = head.d;
  std::vector<float> room(2 * d + 2 * CHUNK);
  float *q = room.data(), *sum = q + d, *s = sum + d, *ds = s + CHUNK;
  float delta = -head.added(row);
  for (int64_t t = 0; t < d; ++t) {
    q[t] = head.q[row][t] * head.scale;
    delta += dout[row][t] * head.out[row][t];
  }
  head.chosen.each(row, head.ranges[row], head.ranges[head.n + row], [&](int64_t j, int keys) {
    row_scores(q, head.k, j, keys, d, s);
    row_scores(dout[row], head.v, j, keys, d, ds);
    for (int r = 0; r < keys; ++r) {
      const float y = head.cap > 0 ? std::tanh(s[r] / head.cap) : 0;
      const float p = std::exp((head.cap > 0 ? head.cap * y : s[r]) - head.lse[row]);
      ds[r] = p * (ds[r] - delta) * (1 - y * y);
      for (int64_t t = 0; t < d; ++t) {
        dv[j + r][t] += p * dout[row][t];
        dk[j + r][t] += ds[r] * q[t];
      }
    }
    row_gather(ds, head.k, j, keys, d, sum);
  });
  for (int64_t t = 0; t < d; ++t) dq[row][t] = sum[t] * head.scale;
}

void forward_block(const Head& head, int64_t row, int64_t end) {
  const Block at(head, row, end);
  const int64_t d = head.d;
  std::vector<float> room((2 * d + CHUNK) * LANES);
  float *panel = room.data(), *sum = panel + d * LANES, *s = sum + d * LANES;
  at.turn(head.q, d, head.scale, panel);
  Vec most[VECS], total[VECS] = {}, kept[VECS];
  for (Vec& x : most) x = Vec{} + NEVER;
  head.chosen.each(row, at.low, at.high, [&](int64_t j, int keys) {
    scores(panel, head.k[j], head.k.stride, d, keys, s);
    if (head.cap > 0) cap_scores(s, keys, head.cap, nullptr);
    at.hide(s, j, keys, NEVER);
    bool moved = false;
    for (int c = 0; c < VECS; ++c) {
      Vec higher = most[c], added = {};
      for (int r = 0; r < keys; ++r) {
        const Vec x = load(s + r * LANES + c * W);
        higher = x > higher ? x : higher;
      }
      const Vec shift = higher == NEVER ? Vec{} : higher;  // a row may have seen nothing yet
      kept[c] = exponential(most[c] - shift);
      for (int l = 0; l < W; ++l) moved |= kept[c][l] != 1.0f;
      most[c] = higher;
      for (int r = 0; r < keys; ++r) {
        float* p = s + r * LANES + c * W;
        store(p, exponential(load(p) - shift));
        added += load(p);
      }
      total[c] = total[c] * kept[c] + added;
    }
    for (int64_t t = 0; moved && t < d; ++t)
      for (int c = 0; c < VECS; ++c) {
        float* p = sum + t * LANES + c * W;
        store(p, load(p) * kept[c]);
      }
    gather(s, head.v[j], head.v.stride, d, keys, sum);
  });
  for (int i = 0; i < at.rows; ++i)
    head.finish(row + i, most[i / W][i % W], total[i / W][i % W], sum + i, LANES);
}

void backward_block(const Head& head, int64_t row, int64_t end, const Rows& dout, const Rows& dq,
                    const Rows& dk, const Rows& dv) {
  const Block at(head, row, end);
  const int64_t d = head.d, panel = d * LANES;
  std::vector<float> room(5 * panel + 3 * CHUNK * LANES);
  float *qt = room.data(), *dot = qt + panel, *dqt = dot + panel, *q = dqt + panel;
  float *dout_rows = q + panel, *s = dout_rows + panel, *ds = s + CHUNK * LANES;
  float* slope = ds + CHUNK * LANES;
  float lse[LANES] = {}, delta[LANES] = {};
  at.turn(head.q, d, head.scale, qt);
  at.turn(dout, d, 1.0f, dot);
  for (int i = 0; i < at.rows; ++i) {
    lse[i] = head.lse[row + i] == NEVER ? -NEVER : head.lse[row + i];  // sees nothing: p is 0
    Vec products = {};
    for (int64_t t = 0; t < d; t += W) {
      store(q + i * d + t, load(head.q[row + i] + t) * head.scale);
      store(dout_rows + i * d + t, load(dout[row + i] + t));
      products += load(dout[row + i] + t) * load(head.out[row + i] + t);
    }
    delta[i] = sum_of(products) - head.added(row + i);
  }
  head.chosen.each(row, at.low, at.high, [&](int64_t j, int keys) {
    scores(qt, head.k[j], head.k.stride, d, keys, s);
    scores(dot, head.v[j], head.v.stride, d, keys, ds);
    if (head.cap > 0) cap_scores(s, keys, head.cap, slope);
    at.hide(s, j, keys, NEVER);
    for (int place = 0; place < keys * LANES; place += W) {
      const Vec p = exponential(load(s + place) - load(lse + place % LANES));
      store(s + place, p);
      store(ds + place, p * (load(ds + place) - load(delta + place % LANES)));
    }
    for (int place = 0; head.cap > 0 && place < keys * LANES; place += W)
      store(ds + place, load(ds + place) * load(slope + place));
    scatter(s, dout_rows, d, keys, dv[j], dv.stride);
    scatter(ds, q, d, keys, dk[j], dk.stride);
    gather(ds, head.k[j], head.k.stride, d, keys, dqt);
  });
  for (int i = 0; i < at.rows; ++i)
    for (int64_t t = 0; t < d; ++t) dq[row + i][t] = dqt[t * LANES + i] * head.scale;
}

// One parallel region; whoever is free takes the next task.
template <typename Run>
void share(int64_t tasks, const Run& run) {
  std::atomic<int64_t> next{0};
  const int64_t threads = std::min<int64_t>(tasks, at::get_num_threads());
  at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
    for (int64_t task; (task = next++) < tasks;) run(task);
  });
}

// Query heads in the order of their groups; a group's keys have a head for so many of its own.
struct Call {
  const at::Tensor &q, &out, &lse;
  at::TensorList k, v, ranges;
  const std::optional<at::Tensor> &chosen, &origins, &sinks;
  int64_t query_block, key_block;
  double scale, cap;
  int64_t batch = q.size(0), heads = q.size(1), n = q.size(2), d = q.size(3), sharing = 0;

  void count() {
    int64_t shared = 0;
    for (const at::Tensor& group : k) shared += group.size(1);
    sharing = heads / shared;
  }

  std::pair<int64_t, int64_t> group(int64_t h) const {  // and the key head's place in it
    int64_t g = 0, shared = h / sharing;
    for (; shared >= k[g].size(1); ++g) shared -= k[g].size(1);
    return {g, shared};
  }

  Head head(int64_t b, int64_t h) const {
    const auto [g, place] = group(h);
    const at::Tensor& seen = ranges[g];  // (batch or 1, 2, n)
    Chosen blocks;
    if (chosen) {  // (batch or 1, heads that choose, query blocks, most)
      const at::Tensor& c = *chosen;
      const int64_t sample = c.size(0) > 1 ? b : 0, chooser = h * c.size(1) / heads;
      blocks = {c.data_ptr<int32_t>() + sample * c.stride(0) + chooser * c.stride(1), c.size(3),
                query_block, key_block, origins ? origins->data_ptr<int32_t>()[b] : 0};
    }
    return {Rows(q, b, h), Rows(k[g], b, place), Rows(v[g], b, place), Rows(out, b, h),
            lse.data_ptr<float>() + (b * heads + h) * n,
            seen.data_ptr<int32_t>() + (seen.size(0) > 1 ? b : 0) * 2 * n, blocks, n,
            k[g].size(2), d, static_cast<float>(scale), static_cast<float>(cap),
            sinks ? sinks->data_ptr<float>()[h] : NEVER};
  }
};

void forward(const at::Tensor& q, at::TensorList k, at::TensorList v, at::TensorList ranges,
             const std::optional<at::Tensor>& chosen, const std::optional<at::Tensor>& origins,
             const std::optional<at::Tensor>& sinks, int64_t query_block, int64_t key_block, double scale, double cap, at::Tensor out,
             at::Tensor lse) {
  Call call{q, out, lse, k, v, ranges, chosen, origins, sinks,
                 query_block, key_block, scale, cap};
  call.count();
  const int64_t each = call.batch * call.heads, spans = (call.n + SPAN - 1) / SPAN;
  share(spans * each, [&](int64_t task) {  // the last first: they see the most anchors
    const Head head = call.head(task % call.batch, call.heads - 1 - task / call.batch % call.heads);
    const int64_t from = (spans - 1 - task / each) * SPAN, to = std::min(call.n, from + SPAN);
    for (int64_t row = from, end; row < to; row = end) {
      end = std::min(to, head.end(row));
      if (end - row > FEW)
        forward_block(head, row, end);
      else
        for (int64_t i = row; i < end; ++i) forward_row(head, i);
    }
  });
}

// A task is a whole key head, so that no two add to the same dk and dv.
void backward(const at::Tensor& q, at::TensorList k, at::TensorList v, at::TensorList ranges,
              const std::optional<at::Tensor>& chosen, const std::optional<at::Tensor>& origins,
              const std::optional<at::Tensor>& sinks, int64_t query_block, int64_t key_block, double scale, double cap,
              const at::Tensor& out, const at::Tensor& lse, const at::Tensor& dout,
              const std::optional<at::Tensor>& dlse, at::Tensor dq, at::TensorList dk,
              at::TensorList dv) {
  Call call{q, out, lse, k, v, ranges, chosen, origins, sinks,
                 query_block, key_block, scale, cap};
  call.count();
  const int64_t shared = call.heads / call.sharing;
  share(call.batch * shared, [&](int64_t task) {
    const int64_t b = task % call.batch, last = (shared - task / call.batch) * call.sharing;
    for (int64_t h = last - call.sharing; h < last; ++h) {
      const auto [g, place] = call.group(h);
      Head head = call.head(b, h);
      if (dlse) head.dlse = dlse->data_ptr<float>() + (b * call.heads + h) * call.n;
      const Rows from(dout, b, h), to_q(dq, b, h), to_k(dk[g], b, place), to_v(dv[g], b, place);
      for (int64_t row = 0, end; row < call.n; row = end) {
        end = head.end(row);
        if (end - row > FEW)
          backward_block(head, row, end, from, to_q, to_k, to_v);
        else
          for (int64_t i = row; i < end; ++i) backward_row(head, i, from, to_q, to_k, to_v);
      }
    }
  });
}

}  // namespace

TORCH_LIBRARY(assay_sparse_attention, library) {
  library.def(
      "forward(Tensor q, Tensor[] k, Tensor[] v, Tensor[] ranges, Tensor? chosen, Tensor? origins, "
      "Tensor? sinks, "
      "int query_block, int key_block, float scale, float cap, Tensor(a!) out, Tensor(b!) lse) "
      "-> ()", &forward);
  library.def(
      "backward(Tensor q, Tensor[] k, Tensor[] v, Tensor[] ranges, Tensor? chosen, Tensor? origins, "
      "Tensor? sinks, "
      "int query_block, int key_block, float scale, float cap, Tensor out, Tensor lse, "
      "Tensor dout, Tensor? dlse, Tensor(a!) dq, Tensor(b!)[] dk, Tensor(c!)[] dv) -> ()", &backward);
}
