#include "cuda/recorder.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/device.h"

namespace linea::cuda {
namespace {

// A stream with its own event and cuBLAS workspace, for a branch of a captured graph.
struct Branch {
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  void* blas_workspace = nullptr;
};

// Branches live as long as the process, which drives the device from one thread.
const Branch& branch(size_t number) {
  static auto* branches = new std::vector<Branch>;
  while (number >= branches->size()) {
    Branch made;
    check_cuda(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking), "creating a stream");
    check_cuda(cudaEventCreateWithFlags(&made.done, cudaEventDisableTiming), "creating an event");
    if (cudaMalloc(&made.blas_workspace, kBlasWorkspace) != cudaSuccess) {
      cudaGetLastError();
      allocator().release_cache();
      check_cuda(cudaMalloc(&made.blas_workspace, kBlasWorkspace),
                 "allocating the cuBLAS workspace");
    }
    branches->push_back(made);
  }
  return (*branches)[number];
}

// For its scope, the queue's work goes to the branch: it starts after `fork`, and the queue
// continues after its end. If the end cannot be captured, the end of the capture reports it and
// restores the queue.
class OnBranch {
 public:
  OnBranch(Queue& queue, const Branch& branch, cudaEvent_t fork)
      : queue_(queue), before_(queue), branch_(branch) {
    check_cuda(cudaStreamWaitEvent(branch.stream, fork, 0), "starting a graph branch");
    put_on(queue, branch.stream, branch.blas_workspace);
  }
  ~OnBranch() {
    try {
      put_on(queue_, before_.stream, before_.blas_workspace);
      check_cuda(cudaEventRecord(branch_.done, branch_.stream), "ending a graph branch");
      check_cuda(cudaStreamWaitEvent(queue_.stream, branch_.done, 0), "ending a graph branch");
    } catch (const Error&) {
    }
  }
  OnBranch(const OnBranch&) = delete;
  OnBranch& operator=(const OnBranch&) = delete;

 private:
  Queue& queue_;
  const Queue before_;
  const Branch& branch_;
};

// A piece of work runs eagerly once, which allocates all its memory in the pool; then it is
// captured with that memory alone, and replayed from then on.
class CudaGraphRecorder final : public GraphRecorder {
 public:
  explicit CudaGraphRecorder(Context& ctx) : queue_(queue(ctx)), pool_(take_pool()) {
    check_cuda(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "creating an event");
  }

  ~CudaGraphRecorder() override {
    cudaStreamSynchronize(queue_.stream);
    for (const Piece& piece : pieces_)
      if (piece.graph != nullptr) cudaGraphExecDestroy(piece.graph);
    cudaEventDestroy(fork_);
    give_back_pool(pool_);
    for (CachingAllocator* pool : branch_pools_) give_back_pool(*pool);
  }

  bool run(size_t number, const std::function<void()>& work) override {
    if (number >= pieces_.size()) pieces_.resize(number + 1);
    Piece& piece = pieces_[number];
    if (piece.graph == nullptr) {
      const PoolScope scope(pool_);
      if (!piece.known || !refusal_.empty()) {
        work();
        piece.known = true;
        return true;
      }
      if (!capture(piece, work)) return false;
    }
    check_cuda(cudaGraphLaunch(piece.graph, queue_.stream), "replaying a graph");
    return true;
  }

  void fork(size_t index, const std::function<void()>& work) override {
    while (index >= branch_pools_.size()) branch_pools_.push_back(&take_pool());
    const Branch& own = branch(index);  // created at the latest in the eager run
    const PoolScope scope(*branch_pools_[index]);
    if (!queue_.recording) return work();
    if (!std::exchange(forked_, true))
      check_cuda(cudaEventRecord(fork_, queue_.stream), "forking a graph");
    const OnBranch here(queue_, own, fork_);
    work();
  }

  size_t launches(size_t number) const override {
    return number < pieces_.size() ? pieces_[number].launches : 0;
  }
  std::string refusal() const override { return refusal_; }

 private:
  struct Piece {
    bool known = false;  // has run eagerly
    cudaGraphExec_t graph = nullptr;
    size_t launches = 0;
  };

  bool capture(Piece& piece, const std::function<void()>& work) {
    const Queue before = queue_;
    check_cuda(cudaStreamBeginCapture(queue_.stream, cudaStreamCaptureModeThreadLocal),
               "starting graph capture");
    queue_.recording = true;
    forked_ = false;
    std::exception_ptr failure;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) failure = std::current_exception();
      refusal_ = error.what();  // an operation cannot be captured
    } catch (...) {
      failure = std::current_exception();
    }
    const Graph graph = stop(before);  // in any case, to restore the queue
    if (failure != nullptr) std::rethrow_exception(failure);
    if (graph == nullptr && refusal_.empty()) refusal_ = "the graph capture was invalidated";
    if (!refusal_.empty()) return false;
    check_cuda(cudaGraphInstantiate(&piece.graph, graph.get(), 0), "instantiating a graph");
    check_cuda(cudaGraphGetNodes(graph.get(), nullptr, &piece.launches), "counting graph nodes");
    return true;
  }

  struct Destroy {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  };
  using Graph = std::unique_ptr<CUgraph_st, Destroy>;

  // Null if the capture was invalidated.
  Graph stop(const Queue& before) {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(before.stream, &graph);
    queue_.recording = false;
    put_on(queue_, before.stream, before.blas_workspace);
    give_back_what_waited();
    if (ended == cudaSuccess) return Graph(graph);
    cudaGetLastError();
    return nullptr;
  }

  Queue& queue_;
  CachingAllocator& pool_;
  std::vector<Piece> pieces_;
  std::vector<CachingAllocator*> branch_pools_;
  cudaEvent_t fork_ = nullptr;  // before the first branch of the captured piece
  bool forked_ = false;
  std::string refusal_;
};

}  // namespace

std::unique_ptr<GraphRecorder> make_graph_recorder(Context& ctx) {
#ifdef LINEA_NAN_FILL  // such builds do not cache memory, which a replay needs
  (void)ctx;
  return nullptr;
#else
  return std::make_unique<CudaGraphRecorder>(ctx);
#endif
}

}  // namespace linea::cuda
