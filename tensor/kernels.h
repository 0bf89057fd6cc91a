// The whole surface between tensors and a device: one line a kernel, filled once by each backend
// with designated initializers (a kernel that is missing does not compile). T is the storage type;
// Accumulator<T> that of sums, statistics and states. No kernel allocates results, checks shapes or
// returns a number to the host: ops.h and the layers above do.
//
// Letters: R rows, C columns, P pairs (batch x head), S positions of a segment, F features of a
// key, D size of a key, M size of a value, V tokens. All arrays are contiguous and row-major.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/context.h"
#include "tensor/element.h"
#include "tensor/kernel_shapes.h"

namespace linea {

// Moving bytes: to, from and on a device. Host pointers where named so.
struct DeviceMemory {
  Allocator& (*allocator)();
  MemoryUse (*use)();
  MemoryLimit (*limit)();
  void (*reset_peak)();     // of `use`
  void (*release_cache)();  // gives the blocks kept for reuse back to the system
  void (*clear)(Context&, void* to, size_t bytes);
  void (*copy)(Context&, void* to, const void* from, size_t bytes);
  void (*read)(Context&, void* host, const void* from, size_t bytes);
  void (*write)(Context&, void* to, const void* host, size_t bytes);
  void (*wait)(Context&);  // until all that was asked of the device is done
};
// Error: ErrorKind::usage where this build has no such backend.
const DeviceMemory& device_memory(Device device);

template <typename T>
struct Kernels {
  using A = Accumulator<T>;

  // elementwise over n
  void (*fill)(Context&, T* y, double value, int64_t n);
  void (*add)(Context&, const T* a, const T* b, T* y, int64_t n);
  void (*multiply)(Context&, const T* a, const T* b, T* y, int64_t n);
  void (*scale)(Context&, const T* x, double factor, T* y, int64_t n);
  void (*accumulate)(Context&, const T* x, T* y, int64_t n);  // y += x
  void (*pointwise)(Context&, Pointwise f, const T* x, T* y, int64_t n);
  void (*pointwise_backward)(Context&, Pointwise f, const T* x, const T* dy, T* dx, int64_t n);
  // y = x in the type of sums, and y = x rounded to what is stored; all pieces at once, listed in
  // the host's memory
  void (*widen)(Context&, const CastPiece<T, A>*, size_t count);
  void (*narrow)(Context&, const CastPiece<A, T>*, size_t count);
  // h = gelu(u), dh becomes gelu'(u) dh
  void (*gelu_recompute)(Context&, const T* u, T* h, T* dh, int64_t n);
  // y = x / (1 - rate) where kept, 0 elsewhere, of the elements `first` and on; step and seed come
  // from StepParams. Its own backward.
  void (*dropout)(Context&, const T* x, T* y, int64_t n, float rate, uint32_t stream_id,
                  int64_t first);

  // rows and columns
  void (*add_rows)(Context&, const T* x, const T* row, T* y, int64_t R, int64_t C);
  void (*sum_rows)(Context&, const T* x, T* y, int64_t R, int64_t C);  // y[C] = sum over R
  void (*permute)(Context&, const PermuteShape&, const T* x, T* y);
  // y = x, [P,S,width] in two layouts
  void (*copy_rows)(Context&, HeadRows<const T> x, HeadRows<T> y, int64_t P, int64_t S,
                    int64_t width);
  // zeroes the rows of x [P,S,C], positions first .. first + S - 1, whose keys do not exist
  void (*clear_padding)(Context&, const ValidKeys&, T* x, int64_t P, int64_t S, int64_t C,
                        int64_t first);
  void (*gemm)(Context&, const GemmShape&, const T* a, const T* b, T* c);
  // y = residual + f(norm(x) w^T + bias); bias and residual may be null, residual is not y
  void (*linear)(Context&, const LinearShape&, const T* x, const NormWeights<T>& norm, const T* w,
                 const T* bias, const T* residual, T* y);
  // weights for sampling: panels [ceil(out / kPanel), in, kPanel] of w [out,in], and y = x w^T +
  // bias by them, x [R,in]; bias may be null; the panels may be kept as bf16
  void (*pack_panels)(Context&, const T* w, T* panels, int64_t out, int64_t in);
  void (*pack_bf16_panels)(Context&, const T* w, BFloat16* panels, int64_t out, int64_t in);
  void (*panel_gemm)(Context&, const T* x, const T* panels, const T* bias, T* y, int64_t R,
                     int64_t out, int64_t in);
  void (*bf16_panel_gemm)(Context&, const T* x, const BFloat16* panels, const T* bias, T* y,
                          int64_t R, int64_t out, int64_t in);
  void (*layer_norm)(Context&, const T* x, const T* weight, const T* bias, T* y, A* mean, A* scale,
                     int64_t R, int64_t C);  // bias may be null; scale = 1 / standard stddev
  void (*layer_norm_backward)(Context&, const T* x, const T* weight, const A* mean, const A* scale,
                              const T* dy, T* dx, T* dweight, T* dbias, int64_t R, int64_t C);
  void (*softmax)(Context&, const T* x, T* y, int64_t R, int64_t C);
  void (*softmax_backward)(Context&, const T* y, const T* dy, T* dx, int64_t R, int64_t C);
  void (*normalize)(Context&, const T* x, T* y, A* sums, int64_t R,
                    int64_t C);  // y = x / sum of row
  void (*normalize_backward)(Context&, const T* y, const A* sums, const T* dy, T* dx, int64_t R,
                             int64_t C);
  // row r belongs to position r % N; keeps columns c <= that position, sets the others to `value`
  void (*mask_causal)(Context&, const T* x, T* y, int64_t R, int64_t N, double value);

  // tokens
  void (*embedding)(Context&, const T* table, const int32_t* ids, T* y, int64_t R, int64_t C);
  void (*embedding_backward)(Context&, const int32_t* ids, const T* dy, T* dtable, int64_t R,
                             int64_t tokens, int64_t C);  // overwrites dtable
  // losses[r] = log sum exp(logits[r]) - logits[r, target], 0 where target < 0; log_sums kept
  void (*cross_entropy)(Context&, const T* logits, const int32_t* targets, A* losses, A* log_sums,
                        int64_t R, int64_t V);
  // mean of the losses with a target >= 0; scored = how many there are
  void (*mean_scored)(Context&, const A* losses, const int32_t* targets, A* mean, A* scored,
                      int64_t R);
  void (*cross_entropy_backward)(Context&, const T* logits, const int32_t* targets,
                                 const A* log_sums, const A* scored, const A* dmean, T* dlogits,
                                 int64_t R, int64_t V);
  void (*argmax)(Context&, const T* x, int32_t* index, int64_t R, int64_t C);
  // y[r] = table[ids[r]] + positions[place[r]], of rows of C: the embedding of one position of each
  // row
  void (*embed_position)(Context&, const A* table, const int32_t* ids, const A* positions,
                         const int32_t* place, T* y, int64_t R, int64_t C);
  // A token of each row, drawn from softmax(scores / temperature), cut as Drawing says, with one
  // of the stream's numbers at its step + the row's count (null: 0); then that is kept, and the
  // row's place and count go on by 1
  void (*sample)(Context&, OutputKind, const T* outputs, int64_t V, const SamplingParams&,
                 RandomStream stream, const SampledTokens&);
  // mixtures of K logistics on V levels (formulas.h), rows of [K logits, K means, K log scales]:
  // losses[r] = -log sum_k softmax(logits)_k P_k(target), 0 where target < 0
  void (*logistics_loss)(Context&, const T* mixtures, const int32_t* targets, A* losses, int64_t R,
                         int64_t V);
  void (*logistics_loss_backward)(Context&, const T* mixtures, const int32_t* targets,
                                  const A* losses, const A* scored, const A* dmean, T* dmixtures,
                                  int64_t R, int64_t V);
  void (*logistics_scores)(Context&, const T* mixtures, T* scores, int64_t R,
                           int64_t V);  // log P of each level

  // feature maps that are not pointwise, rows of D in, rows of F out
  void (*quadratic_features)(Context&, const T* x, T* y, int64_t R, int64_t D);
  void (*quadratic_features_backward)(Context&, const T* x, const T* dy, T* dx, int64_t R,
                                      int64_t D);
  void (*dpfp_features)(Context&, const T* x, T* y, int64_t R, int64_t D, int64_t nu);
  void (*dpfp_features_backward)(Context&, const T* x, const T* dy, T* dx, int64_t R, int64_t D,
                                 int64_t nu);

  // logs of random features (nn/attention/performer.cpp) of rows x [P,S,D], omega [H,F,D], x^ =
  // scale x: u [P,S,F] = omega_f.x^ - |x^|^2 / 2; and dx = scale sum_f du_f (omega_f - x^)
  void (*random_logs)(Context&, const HeadShape&, const T* x, const T* omega, double scale, T* u);
  void (*random_logs_backward)(Context&, const HeadShape&, const T* x, const T* du, const T* omega,
                               double scale, T* dx);
  // w[r] = factor |x|^2, and dx += 2 factor x dw
  void (*square_norms)(Context&, const T* x, T* w, double factor, int64_t R, int64_t D);
  void (*square_norms_backward)(Context&, const T* x, const T* dw, T* dx, double factor, int64_t R,
                                int64_t D);
  // rows u of n to y = [sin u, cos u] of 2n
  void (*sine_cosine)(Context&, const T* u, T* y, int64_t R, int64_t n);
  void (*sine_cosine_backward)(Context&, const T* y, const T* dy, T* du, int64_t R, int64_t n);
  // features from a codebook c [H,F,D], formulas in nn/attention/soft_vq.cpp, vq.cpp: u [P,S,F] =
  // k.c becomes log softmax_f((u - |c_f|^2 / 2) / t); then dlogs becomes du, and dt[p] -= what pair
  // p adds to it
  void (*mixture_logs)(Context&, const HeadShape&, const T* codebook, const T* t, T* u);
  void (*mixture_logs_backward)(Context&, const HeadShape&, const T* t, const T* logs, T* dlogs,
                                T* dt);
  // dcodebook[head] += sum over its pairs of part [P,F,D] - (sum over rows of du) c; du may be null
  void (*add_to_heads)(Context&, const HeadShape&, const T* part, const T* du, const T* codebook,
                       T* dcodebook);
  // the nearest code of each row x, the first of equals; by plain sums, so that it is the same in
  // every form
  void (*nearest_code)(Context&, const HeadShape&, const T* x, const T* codebook, int32_t* code);
  void (*gather_codes)(Context&, const HeadShape&, const int32_t* code, const T* codebook,
                       T* y);  // [P,S,D]
  // counts [H,F] and sums [H,F,D] += the rows x of each code
  void (*sum_by_code)(Context&, const HeadShape&, const T* x, const int32_t* code, T* counts,
                      T* sums);
  void (*one_hot_logs)(Context&, const int32_t* code, T* y, int64_t R,
                       int64_t F);  // 0, else -infinity

  // linear attention, the sum rule; formulas in autograd/linear_attention.h. The state goes in and
  // out.
  void (*chunk_forward)(Context&, const ChunkShape&, const ChunkInput<T>&, const ChunkState<A>&,
                        HeadRows<T> y, const ChunkRows<A>&);
  void (*chunk_backward_query)(Context&, const ChunkShape&, const ChunkInput<T>&,
                               HeadRows<const T> y, HeadRows<const T> dy, const ChunkRows<A>&,
                               const ChunkState<A>&, HeadRows<T> dq, Strided<A> ddenominator);
  // dweight may be null; it is the gradient of a key's weight as a whole
  void (*chunk_backward_key)(Context&, const ChunkShape&, const ChunkInput<T>&,
                             HeadRows<const T> dy, const ChunkRows<A>&,
                             Strided<const A> ddenominator, const ChunkState<A>& grads,
                             HeadRows<T> dk, Strided<T> dweight, HeadRows<T> dv);
  // dk [P,S,D] of hard codes: the gradient of the code that stands for the key, straight through;
  // gradients of F x D (M+1). q of `in` are the logs, `queries` [P,S,D] what they were made of.
  void (*straight_through)(Context&, const ChunkShape&, const ChunkInput<T>& in, const T* queries,
                           const int32_t* code, int64_t D, HeadRows<const T> dy,
                           const ChunkRows<A>&, Strided<const A> ddenominator,
                           const ChunkState<A>& grads, T* dk);
  // one position: absorb, then read; S = 1
  void (*recurrent_step)(Context&, const ChunkShape&, const ChunkInput<T>&, const ChunkState<A>&,
                         const PendingUpdates<T>&, T* y);
  // The same of rows x [rows,in] of LinearShape, one of each sequence, whose q, k and v are norm(x)
  // w^T + bias, w [3 x H x D, in], the heads of q first. False: the device does not do that in one
  // launch, and nothing was done. Null: it never does.
  bool (*fused_norm_step)(Context&, const LinearShape&, const T* x, const NormWeights<T>& norm,
                          const T* w, const T* bias, const ChunkShape&, const ChunkState<A>&,
                          const PendingUpdates<T>&, T* y);
  // the definition, every weight by itself: A [P,N,N], a_ij / sum_j a_ij, 0 where j is not seen by
  // i; and the gradients (each may be null). k of logs may be -infinity.
  void (*attention_matrix)(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal,
                           T* matrix);
  void (*attention_matrix_backward)(Context&, const ChunkShape&, const ChunkInput<T>&, bool causal,
                                    const T* dmatrix, T* dq, T* dk, T* dweight, T* ddecay);
  // the delta rule (autograd/delta_attention.h): q, k [P,S,F] divided by their sums, v and y
  // [P,S,M], beta [P,S]; the state S [P,F,M] goes in and out
  void (*delta_forward)(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                        Strided<const T> beta, A* state, Strided<T> y);
  // `state` as it was before the segment; the gradient of the state goes in and out
  void (*delta_backward)(Context&, const ChunkShape&, const T* q, const T* k, Strided<const T> v,
                         Strided<const T> beta, Strided<const T> dy, const A* state, A* dstate,
                         T* dq, T* dk, Strided<T> dv, Strided<T> dbeta);
  void (*delta_step)(Context&, const T* q, const T* k, const T* v, const T* beta, A* state, T* y,
                     int64_t P, int64_t F, int64_t M);
  // x[p] = l[p]^-1 e[p] (or l^-T), l [P,N,N] of which only what stands below its diagonal is read,
  // the diagonal being 1; e, x [P,N,M]
  void (*solve_unit_lower)(Context&, const T* l, const T* e, T* x, bool transpose, int64_t P,
                           int64_t N, int64_t M);
  // y_t = x_t + y_{t+1} along rows of n
  void (*reverse_cumsum)(Context&, const T* x, T* y, int64_t R, int64_t n);

  // softmax attention in blocks: nothing of size queries x keys is kept
  void (*softmax_attention)(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                            const HeadRows<const T>& k, const HeadRows<const T>& v,
                            const HeadRows<T>& y, A* log_sums);
  void (*softmax_attention_backward)(Context&, const SoftmaxShape&, const HeadRows<const T>& q,
                                     const HeadRows<const T>& k, const HeadRows<const T>& v,
                                     const HeadRows<const T>& y, const A* log_sums,
                                     const HeadRows<const T>& dy, const HeadRows<T>& dq,
                                     const HeadRows<T>& dk, const HeadRows<T>& dv);

  // optimizer: all parameters at once, `count` of them, listed in the host's memory
  void (*sum_squares)(Context&, const TrainedParameter<T>*, size_t count,
                      double* total);  // total += sum g^2
  // writes StepParams; the step's loss may be null
  void (*clip_scale)(Context&, const double* total, const A* loss, double clip);
  void (*adam)(Context&, const AdamConstants&, const TrainedParameter<T>*, size_t count);
  void (*count_nonfinite)(Context&, const T* x, int32_t* count, int64_t n);
};

// Error: ErrorKind::usage where this build has no such backend.
template <typename T>
const Kernels<T>& kernels(Device device);
template <>
const Kernels<float>& kernels<float>(Device device);
template <>
const Kernels<double>& kernels<double>(Device device);
template <>
const Kernels<BFloat16>& kernels<BFloat16>(Device device);

// Work of a device that is recorded once and done again by one launch, on the same memory: pieces
// of it, by number. Between the first piece and the last tensors may be handed on; after the last
// all that was made is released.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  // Does `work`, which asks the device for the same each time: at first plainly, then recorded, and
  // from then on by what was recorded, without a call of `work`. False: it could not be recorded
  // (it waits for the device, or reads the host's memory), and the device did nothing of it: undo
  // what it did on the host, and call again, which does it plainly.
  virtual bool run(size_t piece, const std::function<void()>& work) = 0;
  // Within the work of a piece: a part of it, which reads nothing that another part writes and
  // writes nothing that another touches. What was recorded does the parts at the same time. What
  // comes before the first part, and after the last, is seen by all, and sees all.
  virtual void apart(size_t part, const std::function<void()>& work) = 0;
  // Kernels and copies of a piece that was recorded; 0: it was not.
  virtual size_t launches(size_t piece) const = 0;
  // Why it could not be recorded; empty: it could, so far.
  virtual std::string refusal() const = 0;
};

// One device's backend. The CPU's is part of tensor/; cuda/ registers its own in programs that link
// it.
struct Backend {
  const char* isa;  // of kernels for a CPU: "AVX-512", ...; null elsewhere
  const DeviceMemory& memory;
  const Kernels<float>& f32;
  const Kernels<double>& f64;
  const Kernels<BFloat16>* bf16;  // null: this device does not store so
  // Makes a context one of the device `ctx.device`. Error: ErrorKind::usage where the machine has
  // none.
  void (*start)(Context& ctx);
  std::vector<std::string> (*devices)();  // a line each: its name and its memory
  std::unique_ptr<GraphRecorder> (*make_graph_recorder)(
      Context& ctx);  // null: this device does not record
};
void register_cuda(const Backend& backend);
// Of the context's device; null where it does not record.
std::unique_ptr<GraphRecorder> make_graph_recorder();
// A line each, of CUDA's; none where this build or this machine has none.
std::vector<std::string> cuda_devices();
// The vectors of the CPU kernels in use, and of all that this program holds and this processor
// runs, the widest first. LINEA_ISA in the environment names others than the widest. Error:
// ErrorKind::usage where there are none of that name.
const char* cpu_isa();
std::vector<std::string> all_cpu_isas();
bool built_with_cuda();

}  // namespace linea
