// gloo_c's functions on top of Gloo over TCP: its function interface with the
// algorithms that it chooses by itself.
//
// Reduce-scatter exists in its older class interface only. That has a context
// of its own here, because Gloo slows down where both share one; and it works
// in place only.
//
// Ranks are told apart by RANK and WORLD_SIZE, as `gloo run` sets them, and
// meet in the directory PEER_STORE, which must be new for each job. They listen
// on PEER_ADDRESS, which is 127.0.0.1 unless it is set.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/peer.h"
#include "gloo_c/gloo_c.h"

extern "C" {
const bool gli_peer_sleeps = true;
void gli_peer_poke(void) {}
}

namespace {

using Key = std::pair<void *, size_t>;

std::shared_ptr<gloo::Context> connect(const char *prefix, int rank, int size) {
  const char *path = std::getenv("PEER_STORE");
  if (path == nullptr) throw std::runtime_error("PEER_STORE is not set");
  gloo::rendezvous::FileStore files(path);
  gloo::rendezvous::PrefixStore store(prefix, files);
  const char *address = std::getenv("PEER_ADDRESS");
  gloo::transport::tcp::attr attributes(address ? address : "127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  return context;
}

int number(const char *variable) {
  const char *text = std::getenv(variable);
  if (text == nullptr) {
    throw std::runtime_error(std::string(variable) + " is not set");
  }
  return std::stoi(text);
}

gloo_status fail(gloo_error *error, const char *text) {
  if (error != nullptr) {
    error->status = GLOO_ERR_INTERNAL;
    error->rank = -1;
    std::snprintf(error->message, sizeof error->message, "Gloo: %s", text);
  }
  return GLOO_ERR_INTERNAL;
}

// Gloo speaks of failures by throwing, which must not leave these functions.
template <typename Work>
gloo_status guarded(gloo_error *error, Work work) {
  try {
    work();
    return GLOO_OK;
  } catch (const std::exception &e) {
    return fail(error, e.what());
  }
}

// Call work(T()) for the type that `dtype` names.
template <typename Work>
void with_type(gloo_dtype dtype, Work work) {
  switch (dtype) {
    case GLOO_INT32:
      return work(int32_t());
    case GLOO_INT64:
      return work(int64_t());
    case GLOO_UINT8:
      return work(uint8_t());
    case GLOO_UINT64:
      return work(uint64_t());
    case GLOO_FLOAT32:
      return work(float());
    case GLOO_FLOAT64:
      return work(double());
    default:
      throw std::runtime_error(std::string("no ") + gloo_dtype_name(dtype) +
                               " here");
  }
}

template <typename T>
gloo::AllreduceOptions::Func function_of(gloo_op op) {
  void (*chosen)(void *, const void *, const void *, size_t) = nullptr;
  if (op == GLOO_SUM) chosen = &gloo::sum<T>;
  if (op == GLOO_PRODUCT) chosen = &gloo::product<T>;
  if (op == GLOO_MIN) chosen = &gloo::min<T>;
  if (op == GLOO_MAX) chosen = &gloo::max<T>;
  if (chosen == nullptr) throw std::runtime_error("no such operation here");
  return chosen;
}

template <typename T>
T *input_of(const void *input) {
  return static_cast<T *>(const_cast<void *>(input));
}

}  // namespace

struct gloo_context {
  std::shared_ptr<gloo::Context> functions, classes;
  // One object for each buffer and count. All ranks make them in the same
  // order, since the measuring part uses a buffer's address again only for
  // another count.
  std::map<Key, std::unique_ptr<gloo::Algorithm>> scatters;
  std::vector<char> room;  // for reductions of a rank that is not their root
};

extern "C" {

// ---- contexts --------------------------------------------------------------

gloo_status gloo_init(const gloo_init_options *options, gloo_context **context,
                      gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    auto made = std::make_unique<gloo_context>();
    made->functions =
        connect("functions", number("RANK"), number("WORLD_SIZE"));
    *context = made.release();
  });
}

void gloo_context_destroy(gloo_context *context) {
  delete context;
}

int gloo_context_rank(const gloo_context *context) {
  return context->functions->rank;
}

int gloo_context_size(const gloo_context *context) {
  return context->functions->size;
}

// ---- collectives -----------------------------------------------------------

gloo_status gloo_barrier(gloo_context *context, const gloo_options *options,
                         gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    gloo::BarrierOptions call(context->functions);
    gloo::barrier(call);
  });
}

gloo_status gloo_broadcast(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           int root, const gloo_options *options,
                           gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::BroadcastOptions call(context->functions);
      bool separate =
          input != GLOO_IN_PLACE && root == gloo_context_rank(context);
      if (separate) call.setInput(input_of<T>(input), count);
      call.setOutput(static_cast<T *>(output), count);
      call.setRoot(root);
      gloo::broadcast(call);
    });
  });
}

gloo_status gloo_allreduce(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           gloo_op op, const gloo_options *options,
                           gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::AllreduceOptions call(context->functions);
      if (input != GLOO_IN_PLACE) call.setInput(input_of<T>(input), count);
      call.setOutput(static_cast<T *>(output), count);
      call.setReduceFunction(function_of<T>(op));
      gloo::allreduce(call);
    });
  });
}

gloo_status gloo_allgather(gloo_context *context, const void *input,
                           void *output, size_t count, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::AllgatherOptions call(context->functions);
      if (input != GLOO_IN_PLACE) call.setInput(input_of<T>(input), count);
      size_t all = count * static_cast<size_t>(gloo_context_size(context));
      call.setOutput(static_cast<T *>(output), all);
      gloo::allgather(call);
    });
  });
}

gloo_status gloo_alltoall(gloo_context *context, const void *input,
                          void *output, size_t count, gloo_dtype dtype,
                          const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (input == GLOO_IN_PLACE) {
      throw std::runtime_error("its alltoall has no in-place form");
    }
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::AlltoallOptions call(context->functions);
      size_t all = count * static_cast<size_t>(gloo_context_size(context));
      call.setInput(input_of<T>(input), all);
      call.setOutput(static_cast<T *>(output), all);
      gloo::alltoall(call);
    });
  });
}

gloo_status gloo_reduce_scatter(gloo_context *context, const void *input,
                                void *output, size_t count, gloo_dtype dtype,
                                gloo_op op, const gloo_options *options,
                                gloo_error *error) {
  (void)options;
  std::vector<size_t> counts(static_cast<size_t>(gloo_context_size(context)),
                             count);
  return gloo_reduce_scatterv(context, input, output, counts.data(), dtype, op,
                              options, error);
}

// ---- blocks that differ in length ------------------------------------------

gloo_status gloo_reduce_scatterv(gloo_context *context, const void *input,
                                 void *output, const size_t *counts,
                                 gloo_dtype dtype, gloo_op op,
                                 const gloo_options *options,
                                 gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (input != GLOO_IN_PLACE || op != GLOO_SUM || dtype != GLOO_FLOAT32) {
      throw std::runtime_error("only sums of float32 in place are measured");
    }
    int rank = gloo_context_rank(context), size = gloo_context_size(context);
    if (!context->classes) context->classes = connect("classes", rank, size);
    size_t all = std::accumulate(counts, counts + size, size_t(0));
    auto &scatter = context->scatters[Key(output, all)];
    if (!scatter) {
      std::vector<int> lengths(counts, counts + size);
      std::vector<float *> pointers = {static_cast<float *>(output)};
      scatter.reset(new gloo::ReduceScatterHalvingDoubling<float>(
          context->classes, pointers, static_cast<int>(all), lengths));
    }
    scatter->run();
  });
}

gloo_status gloo_allgatherv(gloo_context *context, const void *input,
                            void *output, const size_t *counts,
                            const size_t *displacements, gloo_dtype dtype,
                            const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (displacements != nullptr) throw std::runtime_error("it knows no gaps");
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::AllgathervOptions call(context->functions);
      size_t own = counts[gloo_context_rank(context)];
      if (input != GLOO_IN_PLACE) call.setInput(input_of<T>(input), own);
      call.setOutput(
          static_cast<T *>(output),
          std::vector<size_t>(counts, counts + gloo_context_size(context)));
      gloo::allgatherv(call);
    });
  });
}

gloo_status gloo_alltoallv(gloo_context *context, const void *input,
                           const size_t *input_counts,
                           const size_t *input_displacements, void *output,
                           const size_t *output_counts,
                           const size_t *output_displacements, gloo_dtype dtype,
                           const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (input_displacements != nullptr || output_displacements != nullptr) {
      throw std::runtime_error("it knows no gaps");
    }
    if (input == GLOO_IN_PLACE) {
      throw std::runtime_error("its alltoallv has no in-place form");
    }
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      using Lengths = std::vector<int64_t>;
      int size = gloo_context_size(context);
      gloo::AlltoallvOptions call(context->functions);
      call.setInput(input_of<T>(input),
                    Lengths(input_counts, input_counts + size));
      call.setOutput(static_cast<T *>(output),
                     Lengths(output_counts, output_counts + size));
      gloo::alltoallv(call);
    });
  });
}

// ---- to and from a root ----------------------------------------------------

// Gloo works in the output of every rank; those that have none of their own, as
// far as gloo_c's function goes, get one here.
gloo_status gloo_reduce(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, gloo_op op, int root,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      bool mine = root == gloo_context_rank(context);
      if (!mine && context->room.size() < count * sizeof(T)) {
        context->room.resize(count * sizeof(T));
      }
      const void *from = input == GLOO_IN_PLACE ? output : input;
      void *to = mine ? output : context->room.data();
      gloo::ReduceOptions call(context->functions);
      if (from != to) call.setInput(input_of<T>(from), count);
      call.setOutput(static_cast<T *>(to), count);
      call.setRoot(root);
      call.setReduceFunction(function_of<T>(op));
      gloo::reduce(call);
    });
  });
}

gloo_status gloo_gather(gloo_context *context, const void *input, void *output,
                        size_t count, gloo_dtype dtype, int root,
                        const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (input == GLOO_IN_PLACE) throw std::runtime_error("no gather in place");
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::GatherOptions call(context->functions);
      call.setInput(input_of<T>(input), count);
      size_t all = count * static_cast<size_t>(gloo_context_size(context));
      bool mine = root == gloo_context_rank(context);
      if (mine) call.setOutput(static_cast<T *>(output), all);
      call.setRoot(root);
      gloo::gather(call);
    });
  });
}

gloo_status gloo_scatter(gloo_context *context, const void *input, void *output,
                         size_t count, gloo_dtype dtype, int root,
                         const gloo_options *options, gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    if (input == GLOO_IN_PLACE) throw std::runtime_error("no scatter in place");
    with_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      gloo::ScatterOptions call(context->functions);
      size_t size = static_cast<size_t>(gloo_context_size(context));
      std::vector<T *> blocks;
      bool mine = root == gloo_context_rank(context);
      for (size_t i = 0; mine && i < size; i++) {
        blocks.push_back(input_of<T>(input) + i * count);
      }
      if (mine) call.setInputs(blocks, count);
      call.setOutput(static_cast<T *>(output), count);
      call.setRoot(root);
      gloo::scatter(call);
    });
  });
}

// ---- messages --------------------------------------------------------------

gloo_status gloo_send(gloo_context *context, const void *input, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    auto buffer = context->functions->createUnboundBuffer(
        const_cast<void *>(input), count * gloo_dtype_size(dtype));
    buffer->send(peer, 0);
    buffer->waitSend();
  });
}

gloo_status gloo_recv(gloo_context *context, void *output, size_t count,
                      gloo_dtype dtype, int peer, const gloo_options *options,
                      gloo_error *error) {
  (void)options;
  return guarded(error, [&] {
    auto buffer = context->functions->createUnboundBuffer(
        output, count * gloo_dtype_size(dtype));
    buffer->recv(peer, 0);
    buffer->waitRecv();
  });
}

}  // extern "C"
