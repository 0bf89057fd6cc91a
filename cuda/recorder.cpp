#include "cuda/recorder.h"

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
      if (!piece.known || plainly_) {
        work();
        piece.known = true;
        return true;
      }
      if (!capture(piece, work)) return false;
    }
    check_cuda(cudaGraphLaunch(piece.graph, queue_.stream), "doing again what was recorded");
    return true;
  }

 private:
  struct Piece {
    bool known = false;  // was done plainly
    cudaGraphExec_t graph = nullptr;
  };

  bool capture(Piece& piece, const std::function<void()>& work) {
    check_cuda(cudaStreamBeginCapture(queue_.stream, cudaStreamCaptureModeThreadLocal), "beginning to record");
    queue_.recording = true;
    bool whole = true;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) {
        stop();
        throw;
      }
      whole = false;
    }
    cudaGraph_t graph = stop();
    if (whole && graph != nullptr)
      check_cuda(cudaGraphInstantiate(&piece.graph, graph, 0), "making what was recorded ready");
    if (graph != nullptr) cudaGraphDestroy(graph);
    plainly_ = piece.graph == nullptr;
    return !plainly_;
  }

  // Null where the recording was spoilt.
  cudaGraph_t stop() {
    cudaGraph_t graph = nullptr;
    queue_.recording = false;
    if (cudaStreamEndCapture(queue_.stream, &graph) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    return graph;
  }

  Queue& queue_;
  CachingAllocator& pool_;
  std::vector<Piece> pieces_;
  bool plainly_ = false;
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
