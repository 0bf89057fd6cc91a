#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/device.h"

namespace linea::cuda {
namespace {

// A piece of work runs eagerly once, which allocates all its memory in the pool; then it is
// captured with that memory alone, and replayed from then on.
class CudaGraphRecorder final : public GraphRecorder {
 public:
  explicit CudaGraphRecorder(Context& ctx) : queue_(queue(ctx)), pool_(take_pool()) {}

  ~CudaGraphRecorder() override {
    cudaStreamSynchronize(queue_.stream);
    for (const Piece& piece : pieces_)
      if (piece.graph != nullptr) cudaGraphExecDestroy(piece.graph);
    pool_.keep_free_blocks(false);
    give_back_pool(pool_);
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
    check_cuda(cudaStreamBeginCapture(queue_.stream, cudaStreamCaptureModeThreadLocal),
               "starting graph capture");
    queue_.recording = true;
    std::exception_ptr failure;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) failure = std::current_exception();
      refusal_ = error.what();  // an operation cannot be captured
    } catch (...) {
      failure = std::current_exception();
    }
    const Graph graph = stop();  // in any case, to restore the queue
    if (failure != nullptr) std::rethrow_exception(failure);
    if (graph == nullptr && refusal_.empty()) refusal_ = "the graph capture was invalidated";
    if (!refusal_.empty()) return false;
    const cudaError_t made = cudaGraphInstantiate(&piece.graph, graph.get(), 0);
    if (made != cudaSuccess) {  // as where the driver has no memory for it
      cudaGetLastError();
      piece.graph = nullptr;
      refusal_ = fmt::format("a graph cannot be instantiated: {}", cudaGetErrorString(made));
      return false;
    }
    pool_.keep_free_blocks(true);
    check_cuda(cudaGraphGetNodes(graph.get(), nullptr, &piece.launches), "counting graph nodes");
    return true;
  }

  using Graph = std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)>;

  // Null if the capture was invalidated.
  Graph stop() {
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(queue_.stream, &graph);
    queue_.recording = false;
    give_back_what_waited();
    if (ended != cudaSuccess) cudaGetLastError();
    return {ended == cudaSuccess ? graph : nullptr, cudaGraphDestroy};
  }

  Queue& queue_;
  CachingAllocator& pool_;
  std::vector<Piece> pieces_;
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
