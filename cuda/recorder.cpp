#include "cuda/recorder.h"

#include <exception>
#include <memory>
#include <vector>

#include "cuda/device.h"
#include "tensor/error.h"

namespace linea::cuda {
namespace {

// A piece is done plainly once, which brings all the memory that it needs into the pool; then it is captured, out of
// that memory alone, and launched from then on.
class GraphRecorder final : public Recorder {
 public:
  explicit GraphRecorder(Context& ctx) : queue_(queue(ctx)), pool_(new_pool()) {}

  ~GraphRecorder() override {
    cudaStreamSynchronize(queue_.stream);
    for (const Piece& piece : pieces_)
      if (piece.graph != nullptr) cudaGraphExecDestroy(piece.graph);
    pool_.release_cache();
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
    check_cuda(cudaGraphLaunch(piece.graph, queue_.stream), "doing again what was recorded");
    return true;
  }

  size_t launches(size_t number) const override { return number < pieces_.size() ? pieces_[number].launches : 0; }
  std::string refusal() const override { return refusal_; }

 private:
  struct Piece {
    bool known = false;  // was done plainly
    cudaGraphExec_t graph = nullptr;
    size_t launches = 0;
  };

  bool capture(Piece& piece, const std::function<void()>& work) {
    check_cuda(cudaStreamBeginCapture(queue_.stream, cudaStreamCaptureModeThreadLocal), "beginning to record");
    queue_.recording = true;
    std::exception_ptr failure;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) failure = std::current_exception();
      refusal_ = error.what();  // something cannot be recorded
    } catch (...) {
      failure = std::current_exception();
    }
    const Graph graph = stop();  // in any case: the queue works again
    if (failure != nullptr) std::rethrow_exception(failure);
    if (graph == nullptr && refusal_.empty()) refusal_ = "the device lost what was recorded";
    if (!refusal_.empty()) return false;
    check_cuda(cudaGraphInstantiate(&piece.graph, graph.get(), 0), "making what was recorded ready");
    check_cuda(cudaGraphGetNodes(graph.get(), nullptr, &piece.launches), "counting what was recorded");
    return true;
  }

  struct Destroy {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  };
  using Graph = std::unique_ptr<CUgraph_st, Destroy>;

  // Null where the recording was spoilt.
  Graph stop() {
    cudaGraph_t graph = nullptr;
    queue_.recording = false;
    const cudaError_t ended = cudaStreamEndCapture(queue_.stream, &graph);
    give_back_what_waited();
    if (ended == cudaSuccess) return Graph(graph);
    cudaGetLastError();
    return nullptr;
  }

  Queue& queue_;
  CachingAllocator& pool_;
  std::vector<Piece> pieces_;
  std::string refusal_;
};

}  // namespace

std::unique_ptr<Recorder> make_recorder(Context& ctx) {
#ifdef LINEA_NAN_FILL  // such builds keep no memory, which what is recorded must find again
  (void)ctx;
  return nullptr;
#else
  return std::make_unique<GraphRecorder>(ctx);
#endif
}

}  // namespace linea::cuda
