/* Makes the device "cuda" of PyTorch's build for CPUs, on the stand-in for
 * CUDA's driver: allocation, views, copies in the order of streams. All other
 * operations are calculated on the CPU. The process has loaded the stand-in
 * with global symbols.
 *
 * Copies between host and device wait for their stream, as PyTorch's do for
 * pageable memory. Those between devices do not. */
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

extern "C" {
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuMemAlloc_v2(unsigned long long *memory, size_t bytes);
int cuMemFree_v2(unsigned long long memory);
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes,
                  void *stream);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventSynchronize(void *event);
int cuEventDestroy_v2(void *event);
int cuLaunchHostFunc(void *stream, void (*host)(void *user), void *user);
}

namespace {

constexpr int kDevices = 2;

void must(int result, const char *what) {
  TORCH_CHECK(result == 0, "the stand-in's ", what, " returned ", result);
}
#define MUST(call) must(call, #call)

/* Makes the context of a device current. */
class Within {
 public:
  explicit Within(int device) {
    void *context;
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxPushCurrent_v2(context));
  }
  ~Within() {
    void *left;
    cuCtxPopCurrent_v2(&left);
  }
};

/* The current device, and the current stream of each device: 0 is the legacy
 * default stream. */
thread_local DeviceIndex current_device = 0;
thread_local int64_t current_streams[kDevices];
/* Numbers of copies by PyTorch. */
std::atomic<int64_t> to_host{0};
thread_local int64_t to_device;

void *handle(int64_t stream) {
  return reinterpret_cast<void *>(stream == 0 ? 1 : stream);
}

unsigned long long address(const void *memory) {
  return reinterpret_cast<unsigned long long>(memory);
}

/* ---- memory -------------------------------------------------------------- */

void release(void *memory) {
  if (memory != nullptr) cuMemFree_v2(address(memory));
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    Device device(c10::DeviceType::CUDA, current_device);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    unsigned long long memory = 0;
    Within within(current_device);
    MUST(cuMemAlloc_v2(&memory, bytes));
    void *at = reinterpret_cast<void *>(memory);
    return {at, at, &release, device};
  }
  void copy_data(void *, const void *, size_t) const override {
    TORCH_CHECK(false, "copies of allocations are not used");
  }
} allocator;

/* ---- devices and streams ------------------------------------------------- */

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  Device exchangeDevice(Device device) const override {
    Device last = getDevice();
    setDevice(device);
    return last;
  }
  Device getDevice() const override {
    return Device(c10::DeviceType::CUDA, current_device);
  }
  void setDevice(Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  Stream getStream(Device device) const override {
    DeviceIndex index = device.index() < 0 ? current_device : device.index();
    return Stream(Stream::UNSAFE, Device(c10::DeviceType::CUDA, index),
                  current_streams[index]);
  }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    void *stream;
    Within within(device.index());
    MUST(cuStreamCreate(&stream, 1));
    return Stream(Stream::UNSAFE, device, reinterpret_cast<int64_t>(stream));
  }
  Stream exchangeStream(Stream stream) const override {
    Stream last = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return last;
  }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  void destroyEvent(void *event, const DeviceIndex) const noexcept override {
    if (event != nullptr) cuEventDestroy_v2(event);
  }
  void record(void **event, const Stream &stream, const DeviceIndex,
              const c10::EventFlag) const override {
    Within within(stream.device_index());
    if (*event == nullptr) MUST(cuEventCreate(event, 2));
    MUST(cuEventRecord(*event, handle(stream.id())));
  }
  void block(void *event, const Stream &stream) const override {
    Within within(stream.device_index());
    if (event != nullptr)
      MUST(cuStreamWaitEvent(handle(stream.id()), event, 0));
  }
  bool queryEvent(void *event) const override {
    return event == nullptr || cuEventQuery(event) == 0;
  }
  void synchronizeEvent(void *event) const override {
    if (event != nullptr) MUST(cuEventSynchronize(event));
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

/* ---- tensors ------------------------------------------------------------- */

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

DeviceIndex index_of(std::optional<Device> device) {
  return device.has_value() && device->index() >= 0 ? device->index()
                                                    : current_device;
}

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout>, std::optional<Device> device,
             std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(Device(c10::DeviceType::CUDA, index_of(device)));
  return at::detail::empty_generic(size, &allocator, kKeys,
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<Device> device,
                     std::optional<bool>) {
  c10::DeviceGuard guard(Device(c10::DeviceType::CUDA, index_of(device)));
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys,
                                           c10::dtype_or_default(dtype));
}

const Tensor &resize_(const Tensor &self, at::IntArrayRef size,
                      std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  Tensor fresh = at::empty(size, self.options());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

/* ---- copies -------------------------------------------------------------- */

void *current_stream(DeviceIndex device) {
  return handle(current_streams[device]);
}

/* Copies bytes between host and device. */
void copy_now(DeviceIndex device, void *to, const void *from, size_t bytes) {
  if (bytes == 0) return;
  Within within(device);
  MUST(
      cuMemcpyAsync(address(to), address(from), bytes, current_stream(device)));
  MUST(cuStreamSynchronize(current_stream(device)));
}

using Pair = std::pair<c10::Storage, c10::Storage>;

void drop(void *pair) {
  delete static_cast<Pair *>(pair);
}

void copy_between(const Tensor &to, const Tensor &from) {
  Within within(to.device().index());
  void *stream = current_stream(to.device().index());
  MUST(cuMemcpyAsync(address(to.data_ptr()), address(from.data_ptr()),
                     to.nbytes(), stream));
  MUST(cuLaunchHostFunc(stream, drop, new Pair(to.storage(), from.storage())));
}

/* Returns a tensor in host memory with the storage and the strides of one on a
 * device. */
Tensor fetched(const Tensor &tensor) {
  const c10::Storage &storage = tensor.storage();
  Tensor bytes = at::empty({static_cast<int64_t>(storage.nbytes())}, at::kByte);
  copy_now(tensor.device().index(), bytes.data_ptr(), storage.data(),
           storage.nbytes());
  Tensor made = at::empty({0}, tensor.options().device(at::kCPU));
  made.set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(),
            tensor.strides());
  if (tensor.is_conj()) made._set_conj(true);
  if (tensor.is_neg()) made._set_neg(true);
  return made;
}

bool is_simple(const Tensor &tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

Tensor &copy_(Tensor &self, const Tensor &source, bool) {
  if (self.numel() == 0) return self;
  if (source.is_cuda() && !self.is_cuda()) to_host++;
  if (!source.is_cuda()) to_device++;
  bool alike = self.scalar_type() == source.scalar_type() &&
               self.sizes() == source.sizes() && is_simple(self) &&
               is_simple(source);
  if (alike && self.is_cuda() && source.is_cuda()) {
    copy_between(self, source);
  } else if (alike) {
    DeviceIndex device = (self.is_cuda() ? self : source).device().index();
    copy_now(device, self.data_ptr(), source.data_ptr(), self.nbytes());
  } else {
    Tensor from = source.is_cuda() ? fetched(source) : source;
    if (!self.is_cuda()) return self.copy_(from);
    Tensor to = fetched(self);
    to.copy_(from);
    copy_now(self.device().index(), self.storage().mutable_data(),
             to.storage().data(), self.storage().nbytes());
  }
  return self;
}

Tensor copy_from_and_resize(const Tensor &self, const Tensor &dst) {
  Tensor to = dst;
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return to.copy_(self);
}

/* Joins vectors, with copies between devices. */
Tensor cat(const at::ITensorListRef &tensors, int64_t dim) {
  std::vector<Tensor> parts;
  int64_t length = 0;
  for (const Tensor &tensor : tensors) {
    TORCH_CHECK(tensor.dim() == 1 && dim == 0, "only vectors are joined");
    parts.push_back(tensor);
    length += tensor.numel();
  }
  Tensor whole = at::empty({length}, parts.at(0).options());
  int64_t begin = 0;
  for (const Tensor &part : parts) {
    whole.narrow(0, begin, part.numel()).copy_(part);
    begin += part.numel();
  }
  return whole;
}

void on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_);
  m.impl("copy_", &copy_);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("cat", &cat);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("view.dtype", &at::native::view_dtype);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
}

}  // namespace

/* ---- for torch_standin.py ------------------------------------------------ */

extern "C" {

int64_t standin_stream(int device) {
  return current_streams[device];
}

void standin_set_stream(int device, int64_t stream) {
  current_streams[device] = stream;
}

int standin_device(void) {
  return current_device;
}

void standin_set_device(int device) {
  current_device = static_cast<DeviceIndex>(device);
}

int64_t standin_copies_to_host(void) {
  return to_host;
}

int64_t standin_copies_to_device(void) {
  return to_device;
}
}
