// Streams and events: the order that CUDA guarantees, and stale data without synchronization.
#include "tests/cuda/emulator/emulated.h"

namespace linea::cuda {
namespace {

constexpr size_t kStreamed = 256, kStreamedBytes = kStreamed * sizeof(float);

__global__ void add_one(float* x) { x[threadIdx.x] += 1; }

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, flags), "cudaStreamCreateWithFlags");
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Pinned host memory, which asynchronous copies access late.
class Pinned {
 public:
  explicit Pinned(float value) {
    check_cuda(cudaMallocHost(&data_, kStreamedBytes), "cudaMallocHost");
    for (size_t i = 0; i < kStreamed; ++i) data_[i] = value;
  }
  ~Pinned() { cudaFreeHost(data_); }
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

void add_on(cudaStream_t stream, const DeviceArray<float>& x) {
  launch(add_one, 1, kStreamed, 0, stream, x.data());
}

void read_on(cudaStream_t stream, const Pinned& to, const DeviceArray<float>& x) {
  check_cuda(cudaMemcpyAsync(to.data(), x.data(), kStreamedBytes, cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
}

class Streams : public testing::Test {
 protected:
  ~Streams() override { settings().stream_order = StreamOrder::late; }
  DeviceArray<float> x_{std::vector<float>(kStreamed, 1)};
  Pinned host_{-1};
};

TEST_F(Streams, RunLateWithoutSynchronization) {
  const Stream stream;
  add_on(stream, x_);
  read_on(stream, host_, x_);
  EXPECT_EQ(host_.data()[0], -1);
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  EXPECT_EQ(host_.data()[0], 2);
}

TEST_F(Streams, RunEagerlyOnRequest) {
  settings().stream_order = StreamOrder::eager;
  const Stream stream;
  add_on(stream, x_);
  read_on(stream, host_, x_);
  EXPECT_EQ(host_.data()[0], 2);
}

TEST_F(Streams, RunOperationsInOrder) {
  for (const StreamOrder order : {StreamOrder::late, StreamOrder::eager, StreamOrder::random}) {
    settings().stream_order = order;
    const Stream stream;
    check_cuda(cudaMemsetAsync(x_.data(), 0, kStreamedBytes, stream), "cudaMemsetAsync");
    for (int i = 0; i < 5; ++i) add_on(stream, x_);
    read_on(stream, host_, x_);
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    EXPECT_EQ(host_.data()[kStreamed - 1], 5);
  }
}

float read_by_another(const DeviceArray<float>& x, const Pinned& host, bool waits) {
  const Stream writer, reader;
  const Event written;
  add_on(writer, x);
  check_cuda(cudaEventRecord(written, writer), "cudaEventRecord");
  if (waits) check_cuda(cudaStreamWaitEvent(reader, written, 0), "cudaStreamWaitEvent");
  read_on(reader, host, x);
  check_cuda(cudaStreamSynchronize(reader), "cudaStreamSynchronize");
  return host.data()[0];
}

TEST_F(Streams, AreOrderedByEvents) { EXPECT_EQ(read_by_another(x_, host_, true), 2); }
TEST_F(Streams, AreNotOrderedWithoutEvents) { EXPECT_EQ(read_by_another(x_, host_, false), 1); }

TEST_F(Streams, SynchronizeWithTheDefaultStreamUnlessNonBlocking) {
  const Stream waits(cudaStreamDefault);
  add_on(nullptr, x_);
  read_on(waits, host_, x_);
  check_cuda(cudaStreamSynchronize(waits), "cudaStreamSynchronize");
  EXPECT_EQ(host_.data()[0], 2);
  add_on(waits, x_);
  check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  add_on(nullptr, x_);  // waits for the other stream
  read_on(nullptr, host_, x_);
  check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  EXPECT_EQ(host_.data()[0], 4);
}

TEST_F(Streams, ReadPageableMemoryAtTheCall) {
  const Stream stream;
  std::vector<float> values(kStreamed, 7);
  check_cuda(
      cudaMemcpyAsync(x_.data(), values.data(), kStreamedBytes, cudaMemcpyHostToDevice, stream),
      "cudaMemcpyAsync");
  values.assign(kStreamed, 8);
  check_cuda(
      cudaMemcpyAsync(values.data(), x_.data(), kStreamedBytes, cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync");
  EXPECT_EQ(values[0], 7);
}

TEST_F(Streams, ReadPinnedMemoryLate) {
  const Stream stream;
  check_cuda(
      cudaMemcpyAsync(x_.data(), host_.data(), kStreamedBytes, cudaMemcpyHostToDevice, stream),
      "cudaMemcpyAsync");
  host_.data()[0] = 50;  // too early: the copy has not read it yet
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  EXPECT_EQ(x_.values()[0], 50);
}

TEST_F(Streams, ReportCompletion) {
  const Stream stream;
  const Event start, end;
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  cudaEventRecord(start, stream);
  add_on(stream, x_);
  cudaEventRecord(end, stream);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  int queries = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++queries;
  EXPECT_EQ(queries, 3);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
}

TEST_F(Streams, WaitForAnEvent) {
  const Stream stream;
  const Event middle;
  add_on(stream, x_);
  read_on(stream, host_, x_);
  cudaEventRecord(middle, stream);
  add_on(stream, x_);
  cudaEventSynchronize(middle);
  EXPECT_EQ(host_.data()[0], 2);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
}

TEST_F(Streams, MayBeDestroyedWithPendingOperations) {
  {
    const Stream stream;
    add_on(stream, x_);
    read_on(stream, host_, x_);
  }
  EXPECT_EQ(host_.data()[0], 2);
}

}  // namespace
}  // namespace linea::cuda
