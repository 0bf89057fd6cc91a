// Stream capture into graphs: replay, and calls that are forbidden during capture.
#include <cublas_v2.h>

#include <functional>

#include "cuda/emulator/counts.h"
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr size_t kCount = 64, kBytes = kCount * sizeof(float);

__global__ void add(float* x, float value) { x[threadIdx.x] += value; }

class Graphs : public testing::Test {
 protected:
  Graphs() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  }
  ~Graphs() override {
    cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }

  void begin() {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "a capture");
  }
  cudaError_t end() { return cudaStreamEndCapture(stream_, &graph_); }
  cudaStreamCaptureStatus status() const {
    cudaStreamCaptureStatus status{};
    check_cuda(cudaStreamIsCapturing(stream_, &status), "cudaStreamIsCapturing");
    return status;
  }

  DeviceArray<float> x_{std::vector<float>(kCount, 1)};
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
};

TEST_F(Graphs, AreReplayed) {
  EXPECT_EQ(status(), cudaStreamCaptureStatusNone);
  begin();
  EXPECT_EQ(status(), cudaStreamCaptureStatusActive);
  float value = 2;
  launch(add, 1, kCount, 0, stream_, x_.data(), value);
  value = 3;
  launch(add, 1, kCount, 0, stream_, x_.data(), value);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(status(), cudaStreamCaptureStatusNone);
  EXPECT_EQ(x_.values()[0], 1);  // nothing has run

  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_, 0), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph_, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_EQ(x_.values()[kCount - 1], 16);
}

TEST_F(Graphs, CaptureProductsAndCopies) {
  const DeviceArray<float> y(std::vector<float>(kCount, 0));
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  cublasSetStream(handle, stream_);
  const float one = 1, zero = 0;
  begin();
  EXPECT_EQ(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, x_.data(), 8, x_.data(), 8,
                        &zero, y.data(), 8),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaMemcpyAsync(x_.data(), y.data(), kBytes, cudaMemcpyDeviceToDevice, stream_),
            cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(exec, stream_);
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  EXPECT_EQ(x_.values()[0], 512);
  cudaGraphExecDestroy(exec);
  cublasDestroy(handle);
}

TEST_F(Graphs, CountTheirNodesByKind) {
  using emulator::NodeKind;
  const auto counts = [] {
    std::vector<size_t> result;
    for (const NodeKind kind :
         {NodeKind::kernel, NodeKind::memset, NodeKind::copy, NodeKind::other})
      result.push_back(emulator::node_count(kind));
    return result;
  };
  const std::vector<size_t> before = counts();
  const DeviceArray<float> y(kCount);
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  begin();
  for (int i = 0; i < 3; ++i) launch(add, 1, kCount, 0, stream_, x_.data(), 1.0f);
  cudaMemsetAsync(y.data(), 0, kBytes, stream_);
  cudaEventRecord(event, stream_);
  for (int i = 0; i < 2; ++i)
    cudaMemcpyAsync(y.data(), x_.data(), kBytes, cudaMemcpyDeviceToDevice, stream_);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(counts(), before);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_, 0), cudaSuccess);
  std::vector<size_t> counted = counts();
  for (size_t i = 0; i < counted.size(); ++i) counted[i] -= before[i];
  EXPECT_EQ(counted, (std::vector<size_t>{3, 1, 2, 0}));
  cudaGraphExecDestroy(exec);
  cudaEventDestroy(event);
}

// Each of these invalidates the capture. (On a GPU, cudaMallocAsync instead adds a node with memory
// that the graph owns.)
TEST_F(Graphs, ForbidSynchronizationAndAllocation) {
  void* data = nullptr;
  std::vector<float> host(kCount);
  const auto calls = std::vector<std::function<cudaError_t()>>{
      [&] { return cudaMalloc(&data, 100); },
      [&] { return cudaMallocAsync(&data, 100, stream_); },
      [&] { return cudaFree(nullptr); },
      [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaStreamSynchronize(stream_); },
      [&] { return cudaMemcpy(host.data(), x_.data(), kBytes, cudaMemcpyDeviceToHost); },
      [&] {
        return cudaMemcpyAsync(x_.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream_);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    begin();
    EXPECT_EQ(calls[i](), cudaErrorStreamCaptureUnsupported) << "call " << i;
    EXPECT_EQ(status(), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph_, nullptr);
  }
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, DoNotAffectOtherStreams) {
  cudaStream_t other = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  begin();
  launch(add, 1, kCount, 0, other, x_.data(), 4.0f);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(x_.values()[0], 5);
}

TEST_F(Graphs, CannotWaitForOtherStreams) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  check_cuda(cudaEventRecord(event, other), "cudaEventRecord");
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
  cudaGetLastError();
}

__global__ void copy(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x]; }

// A second stream joins the capture by one event, and is joined by another.
class Branches : public Graphs {
 protected:
  Branches() {
    check_cuda(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    for (cudaEvent_t* event : {&fork_, &join_})
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
  }
  ~Branches() override {
    cudaEventDestroy(fork_);
    cudaEventDestroy(join_);
    cudaStreamDestroy(other_);
    cudaGetLastError();
  }

  void fork() {
    check_cuda(cudaEventRecord(fork_, stream_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(other_, fork_, 0), "cudaStreamWaitEvent");
  }
  void join() {
    check_cuda(cudaEventRecord(join_, other_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(stream_, join_, 0), "cudaStreamWaitEvent");
  }
  void run() {
    cudaGraphExec_t exec = nullptr;
    check_cuda(cudaGraphInstantiate(&exec, graph_, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphLaunch(exec, stream_), "cudaGraphLaunch");
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    cudaGraphExecDestroy(exec);
  }

  DeviceArray<float> y_{std::vector<float>(kCount, 0)};
  cudaStream_t other_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
};

TEST_F(Branches, AreOrderedByForkAndJoin) {
  begin();
  launch(add, 1, kCount, 0, stream_, x_.data(), 2.0f);
  fork();
  launch(copy, 1, kCount, 0, other_, static_cast<const float*>(x_.data()), y_.data());
  launch(add, 1, kCount, 0, other_, y_.data(), 10.0f);
  join();
  launch(add, 1, kCount, 0, stream_, y_.data(), 100.0f);
  ASSERT_EQ(end(), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph_, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 4u);  // events add no nodes
  run();
  EXPECT_EQ(y_.values()[0], 113);
}

// Both branches use the same memory, an error that running one branch after the other would hide.
TEST_F(Branches, AreInterleaved) {
  const DeviceArray<float> shared(std::vector<float>(kCount, 0)), z(std::vector<float>(kCount, 0));
  begin();
  fork();
  launch(add, 1, kCount, 0, stream_, shared.data(), 1.0f);
  launch(copy, 1, kCount, 0, stream_, static_cast<const float*>(shared.data()), y_.data());
  launch(add, 1, kCount, 0, other_, shared.data(), 1.0f);
  launch(copy, 1, kCount, 0, other_, static_cast<const float*>(shared.data()), z.data());
  join();
  ASSERT_EQ(end(), cudaSuccess);
  run();
  EXPECT_EQ(y_.values()[0], 2);
  EXPECT_EQ(z.values()[0], 2);
}

TEST_F(Branches, MustJoinTheOriginStream) {
  begin();
  fork();
  launch(add, 1, kCount, 0, other_, x_.data(), 1.0f);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  begin();
  fork();
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  // The event belongs to a capture that has ended.
  EXPECT_EQ(cudaStreamWaitEvent(other_, fork_, 0), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace linea::cuda
