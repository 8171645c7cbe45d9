// Attention in which query i sees the keys first_i <= j < last_i, forward and backward.
//
// A block is LANES queries: one to a lane of a vector, so that softmax needs no sums across lanes.
// Its scores S^T (keys, LANES) are made CHUNK keys at a time and never leave the first-level cache;
// keys and values are read where they stand, whatever the distance of their rows. Forward keeps a
// running maximum and sum (online softmax, 1805.02867), backward takes P = exp(S - L) anew.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr int W = 8;  // floats to a vector
constexpr int VECS = 3;
constexpr int LANES = W * VECS;  // queries to a block: 4 keys x 3 vectors fill 12 registers
constexpr int CHUNK = 48;        // keys at a time
constexpr int SPAN = 10 * LANES; // queries to a task of the forward pass
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

struct Block {  // queries row .. row + rows, and what they see
  int64_t row, low, high, all_low = 0, all_high;  // some see low .. high, all see all_low ..
  int rows;
  int32_t first[LANES] = {}, last[LANES] = {};  // of lanes without a query: nothing

  Block(const int32_t* ranges, int64_t n, int64_t row)
      : row(row), low(n), high(0), all_high(n), rows(std::min<int64_t>(LANES, n - row)) {
    for (int i = 0; i < rows; ++i) {
      first[i] = ranges[row + i];
      last[i] = ranges[n + row + i];
      low = std::min<int64_t>(low, first[i]);
      high = std::max<int64_t>(high, last[i]);
      all_low = std::max<int64_t>(all_low, first[i]);
      all_high = std::min<int64_t>(all_high, last[i]);
    }
  }

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
  int64_t n, d;
  float scale;
};

void forward_block(const Head& head, int64_t row) {
  const Block at(head.ranges, head.n, row);
  const int64_t d = head.d;
  std::vector<float> room((2 * d + CHUNK) * LANES);
  float *panel = room.data(), *sum = panel + d * LANES, *s = sum + d * LANES;
  at.turn(head.q, d, head.scale, panel);
  Vec most[VECS], total[VECS] = {}, kept[VECS];
  for (Vec& x : most) x = Vec{} - 1e30f;  // finite: a row may see nothing of its first chunk
  for (int64_t j = at.low; j < at.high; j += CHUNK) {
    const int keys = std::min<int64_t>(CHUNK, at.high - j);
    scores(panel, head.k[j], head.k.stride, d, keys, s);
    at.hide(s, j, keys, NEVER);
    bool moved = false;
    for (int c = 0; c < VECS; ++c) {
      Vec higher = most[c], added = {};
      for (int r = 0; r < keys; ++r) {
        const Vec x = load(s + r * LANES + c * W);
        higher = x > higher ? x : higher;
      }
      kept[c] = exponential(most[c] - higher);
      for (int l = 0; l < W; ++l) moved |= kept[c][l] != 1.0f;
      most[c] = higher;
      for (int r = 0; r < keys; ++r) {
        float* p = s + r * LANES + c * W;
        store(p, exponential(load(p) - higher));
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
  }
  for (int i = 0; i < at.rows; ++i) {
    const float whole = total[i / W][i % W];
    head.lse[row + i] = most[i / W][i % W] + std::log(whole);
    for (int64_t t = 0; t < d; ++t) head.out[row + i][t] = sum[t * LANES + i] / whole;
  }
}

void backward_block(const Head& head, int64_t row, const Rows& dout, const Rows& dq,
                    const Rows& dk, const Rows& dv) {
  const Block at(head.ranges, head.n, row);
  const int64_t d = head.d, panel = d * LANES;
  std::vector<float> room(5 * panel + 2 * CHUNK * LANES);
  float *qt = room.data(), *dot = qt + panel, *dqt = dot + panel, *q = dqt + panel;
  float *dout_rows = q + panel, *s = dout_rows + panel, *ds = s + CHUNK * LANES;
  float lse[LANES] = {}, delta[LANES] = {};
  at.turn(head.q, d, head.scale, qt);
  at.turn(dout, d, 1.0f, dot);
  for (int i = 0; i < at.rows; ++i) {
    lse[i] = head.lse[row + i];
    Vec products = {};
    for (int64_t t = 0; t < d; t += W) {
      store(q + i * d + t, load(head.q[row + i] + t) * head.scale);
      store(dout_rows + i * d + t, load(dout[row + i] + t));
      products += load(dout[row + i] + t) * load(head.out[row + i] + t);
    }
    for (int l = 0; l < W; ++l) delta[i] += products[l];
  }
  for (int64_t j = at.low; j < at.high; j += CHUNK) {
    const int keys = std::min<int64_t>(CHUNK, at.high - j);
    scores(qt, head.k[j], head.k.stride, d, keys, s);
    scores(dot, head.v[j], head.v.stride, d, keys, ds);
    at.hide(s, j, keys, NEVER);
    for (int place = 0; place < keys * LANES; place += W) {
      const Vec p = exponential(load(s + place) - load(lse + place % LANES));
      store(s + place, p);
      store(ds + place, p * (load(ds + place) - load(delta + place % LANES)));
    }
    scatter(s, dout_rows, d, keys, dv[j], dv.stride);
    scatter(ds, q, d, keys, dk[j], dk.stride);
    gather(ds, head.k[j], head.k.stride, d, keys, dqt);
  }
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

// Query heads in the order of their groups; a group's keys have a head for each of its own.
struct Call {
  const at::Tensor &q, &out, &lse;
  at::TensorList k, v, ranges;
  int64_t batch = q.size(0), heads = q.size(1), n = q.size(2), d = q.size(3);

  std::pair<int64_t, int64_t> group(int64_t h) const {  // and the head's place in it
    int64_t g = 0;
    for (; h >= k[g].size(1); ++g) h -= k[g].size(1);
    return {g, h};
  }

  Head head(int64_t b, int64_t h) const {
    const auto [g, place] = group(h);
    return {Rows(q, b, h), Rows(k[g], b, place), Rows(v[g], b, place), Rows(out, b, h),
            lse.data_ptr<float>() + (b * heads + h) * n, ranges[g].data_ptr<int32_t>(),
            n, d, static_cast<float>(1 / std::sqrt(static_cast<double>(d)))};
  }
};

void forward(const at::Tensor& q, at::TensorList k, at::TensorList v, at::TensorList ranges,
             at::Tensor out, at::Tensor lse) {
  const Call call{q, out, lse, k, v, ranges};
  const int64_t each = call.batch * call.heads, spans = (call.n + SPAN - 1) / SPAN;
  share(spans * each, [&](int64_t task) {  // the last first: they see the most anchors
    const Head head = call.head(task % call.batch, call.heads - 1 - task / call.batch % call.heads);
    const int64_t from = (spans - 1 - task / each) * SPAN;
    for (int64_t row = from; row < std::min(call.n, from + SPAN); row += LANES)
      forward_block(head, row);
  });
}

// A task is a whole head, so that no two add to the same dk and dv.
void backward(const at::Tensor& q, at::TensorList k, at::TensorList v, at::TensorList ranges,
              const at::Tensor& out, const at::Tensor& lse, const at::Tensor& dout, at::Tensor dq,
              at::TensorList dk, at::TensorList dv) {
  const Call call{q, out, lse, k, v, ranges};
  share(call.batch * call.heads, [&](int64_t task) {
    const int64_t b = task % call.batch, h = call.heads - 1 - task / call.batch;
    const auto [g, place] = call.group(h);
    for (int64_t row = 0; row < call.n; row += LANES)
      backward_block(call.head(b, h), row, Rows(dout, b, h), Rows(dq, b, h),
                     Rows(dk[g], b, place), Rows(dv[g], b, place));
  });
}

}  // namespace

TORCH_LIBRARY(assay_sparse_attention, library) {
  library.def(
      "forward(Tensor q, Tensor[] k, Tensor[] v, Tensor[] ranges, Tensor(a!) out, "
      "Tensor(b!) lse) -> ()", &forward);
  library.def(
      "backward(Tensor q, Tensor[] k, Tensor[] v, Tensor[] ranges, Tensor out, Tensor lse, "
      "Tensor dout, Tensor(a!) dq, Tensor(b!)[] dk, Tensor(c!)[] dv) -> ()", &backward);
}
