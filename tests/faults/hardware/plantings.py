"""Faults of hardware and drivers: each makes the code forget what a device may do, or a stand-in do what a device
must not. The text to replace occurs once in its file. `tests` find the fault, the likeliest first."""

from typing import NamedTuple


class Planting(NamedTuple):
    kind: str  # rdma, gpu or rails
    name: str
    file: str  # of src, or of the stand-ins
    old: str
    new: str
    tests: tuple[str, ...]


IBV = "src/transport_ibv/"
IBV_STANDIN = "tests/transport_ibv/standin/"
STAGED = "src/engine/memory/staged_copies.c"
CUDA_STANDIN = "tests/cuda/standin/"


def rdma(name: str, file: str, old: str, new: str, *tests: str) -> Planting:
    return Planting("rdma", name, file, old, new, tests)


def gpu(name: str, file: str, old: str, new: str, *tests: str) -> Planting:
    return Planting("gpu", name, file, old, new, tests)


def rails(name: str, file: str, old: str, new: str, *tests: str) -> Planting:
    return Planting("rails", name, IBV + file, old, new, tests or ("transport_ibv_lanes",))


PLANTINGS = [
    # ---- what RDMA devices and networks do -----------------------------------------
    rdma("a send that completes in error counts as sent", IBV + "complete.c",
         "if (!dead && wc->status == IBV_WC_SUCCESS) {",
         "if (!dead && (slot == NULL || wc->status == IBV_WC_SUCCESS)) {", "transport_ibv_network", "transport_ibv_faults_2"),
    rdma("memory stays registered after it was freed", IBV + "ibv_register.c",
         "  region_deregister(t, &t->regions[i]);\n  t->regions[i] =", "  t->regions[i] =", "transport_ibv_registered", "transport_ibv_slow"),
    rdma("a slot is used again while the device reads it", IBV + "ibv_send.c",
         "while (pair->done != pair->posted && !told) {", "while (pair->done != pair->posted) {",
         "transport_ibv_message"),
    rdma("BYE does not wait for acknowledgements", IBV + "ibv_close.c",
         "  if (gli_ibv_arrived(pair)) return true;\n", "  if (pair != NULL) return true;\n",
         "transport_ibv_close", "transport_ibv_owed"),
    rdma("a port that requires the GRH gets none", IBV + "port.c",
         "port->needs_grh = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;", "port->needs_grh = false;",
         "transport_ibv_network"),
    rdma("a receiver without buffers ends the pair", IBV + "qp.c", ".rnr_retry = RNR_RETRIES", ".rnr_retry = 0",
         "transport_ibv_shared"),
    rdma("a short absence of the network ends the pair", IBV + "qp.c",
         ".retry_cnt = (uint8_t)port->wishes.retries", ".retry_cnt = 1", "transport_ibv_network"),
    rdma("unacknowledged packets are given up after 67 ms each", IBV + "port.c", "ACK_TIMEOUT = 18,",
         "ACK_TIMEOUT = 14,", "transport_ibv_network"),
    rdma("a flush without a cause is ignored", IBV + "complete.c", "    completed_doubt(pair);\n  } else {",
         "  } else {", "transport_ibv_shared"),
    rdma("a queue pair that was emptied in error is ignored", IBV + "complete.c",
         "if (gli_ibv_has_queue(pair) && !pair->broken) completed_doubt(pair);", "", "transport_ibv_faults_2"),
    rdma("late completions go to the next queue pair of that number", IBV + "ibv_shared.c",
         "gli_ibv_stash_all(t, old->number);", "gli_ibv_stash_all(t, 0);", "transport_ibv_shared"),
    rdma("events are not acknowledged", IBV + "complete.c", "    v->ack_async_event(&event);\n", "",
         "transport_ibv_shared", "transport_ibv_faults_2"),
    rdma("the removal of a device is ignored", IBV + "complete.c",
         "    case IBV_EVENT_DEVICE_FATAL:\n      device_is_gone(t, \"was removed\");\n",
         "    case IBV_EVENT_DEVICE_FATAL:\n", "transport_ibv_faults_2"),
    rdma("a path is tested with a short packet", IBV + "ibv_send.c", ".bytes = first ? GLI_IBV_MORE_MAX : 0,",
         ".bytes = 0,", "transport_ibv_network"),
    rdma("the peer's smaller MTU is ignored", IBV + "qp.c",
         ".path_mtu = peer->mtu < port->mtu ? peer->mtu : port->mtu,", ".path_mtu = port->mtu,",
         "transport_ibv_network"),
    rdma("a queue pair takes its completions with it", IBV + "queue.c",
         "  if (pair->own == NULL) gli_ibv_stash_all(t, 0);\n", "", "transport_ibv_shared"),
    rdma("memory of a queue pair that could not be destroyed is freed", IBV + "queue.c",
         "pair->qp_leaked = t->port.v->destroy_qp(pair->qp) != 0;", "(void)t->port.v->destroy_qp(pair->qp);",
         "transport_ibv_shared"),
    rdma("few receive buffers are no event", IBV + "complete.c", "      gli_ibv_buffers_low(t);\n", "",
         "transport_ibv_shared"),
    rdma("more reads run at once than the peer serves", IBV + "qp.c",
         "return reads_least(port->reads.begun, peer->reads.served);",
         "return peer->reads.served < 200 ? port->reads.begun : 0;", "transport_ibv_network", "ranks_windows_ibv"),
    rdma("the partition is ignored", IBV + "port.c", "    port->pkey_index = (uint16_t)i;\n", "",
         "transport_ibv_network"),
    rdma("less inline data than asked for is an error", IBV + "queue.c",
         "if (pair->qp != NULL || errno != EINVAL || asked == 0) break;", "break;", "transport_ibv_network"),
    rdma("packets to another subnet have no router", IBV + "qp.c",
         "near ? peer->lid : gli_ibv_gid_router(&peer->gid)", "peer->lid", "transport_ibv_network"),
    rdma("a device without reliable connections is used", IBV + "port.c",
         "attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {",
         "attributes.link_layer != IBV_LINK_LAYER_ETHERNET && number == 0) {", "transport_ibv_network"),
    rdma("a queue that cannot be read is taken for empty", IBV + "complete.c",
         "    if (n < 0) device_is_gone(t, \"was removed\");\n", "", "transport_ibv_faults_2"),
    rdma("events that cannot be armed are waited for", IBV + "complete.c",
         "    (void)atomic_compare_exchange_strong(&t->device, &device, GLI_IBV_FAILING);\n    quiet = false;\n",
         "", "transport_ibv_faults_2", "transport_ibv_thread"),
    rdma("one absent host delays all connections", IBV + "ibv_jobs.c", "enum { THREADS_MAX = 8 };",
         "enum { THREADS_MAX = 1 };", "transport_ibv_slow"),
    rdma("a rank is silent while it connects", IBV + "ibv_connect.c",
         "note_send(pair, GLI_IBV_ALIVE, NOTE_HEAD_BYTES);", ";", "transport_ibv_shared", "transport_ibv_slow"),
    rdma("a peer may take all receive buffers", IBV + "ibv_receive.c", "if (pair->allowed-- == 0) {",
         "if (pair->allowed-- == UINT32_MAX) {", "transport_ibv_shared"),
    rdma("the completion queue does not grow", IBV + "ibv_shared.c",
         "int code = port->v->resize_cq(port->cq, port->cq_entries + more);", "int code = 0;",
         "transport_ibv_shared"),
    # ---- what they must not do, and users would see ----------------------------------
    rdma("a bit changes on the way", IBV_STANDIN + "deliver.c", "  if (bytes > 0 && !orphan) memcpy(to, from, bytes);\n",
         "  if (bytes > 0 && !orphan) memcpy(to, from, bytes);\n  if (bytes > 200 && !orphan) to[bytes / 2] ^= 1;\n",
         "transport_ibv_message"),
    rdma("a write completes before its last byte is there", IBV_STANDIN + "deliver.c",
         "  if (bytes > 0 && !orphan) memcpy(to, from, bytes);\n",
         "  size_t late = work->opcode == IBV_WR_RDMA_WRITE;\n"
         "  if (bytes > 0 && !orphan) memcpy(to, from, bytes - late);\n", "transport_ibv_alloc_message"),
    rdma("a read completes before its first bytes are there", IBV_STANDIN + "deliver.c",
         "if (!orphan && !run.mr->orphan) memcpy(", "if (!orphan && !run.mr->orphan && work->moved > 0) memcpy(",
         "ranks_windows_ibv"),
    rdma("a completion comes twice", IBV_STANDIN + "deliver.c", "    standin_complete(qp->base.send_cq, &entry);\n",
         "    for (int i = 0; i < 2; i++) standin_complete(qp->base.send_cq, &entry);\n", "transport_ibv_message"),
    rdma("a completion has a wrong length", IBV_STANDIN + "deliver.c", ".byte_len = (uint32_t)bytes,",
         ".byte_len = (uint32_t)bytes + (bytes > 1000),", "transport_ibv_message"),
    # ---- what GPUs and their drivers do ----------------------------------------------
    gpu("the program's stream is not waited for before its memory is read", STAGED,
        "  gloo_status status = forget_reached(s->gates, &s->n_gates, error);\n  if (status == GLOO_OK) s->open",
        "  gloo_status status = GLOO_OK;\n  (void)error;\n  drop_gates(s);\n  if (status == GLOO_OK) s->open",
        "cuda_standin_tcp"),
    gpu("copies are not waited for", STAGED,
        "  gloo_status status = forget_reached(c->events, &c->n_events, error);\n  if (status != GLOO_OK) return",
        "  gloo_status status = GLOO_OK;\n  (void)error;\n  drop_events(c);\n  if (status != GLOO_OK) return",
        "cuda_standin_tcp"),
    gpu("the context stays on the stack of the thread", "src/memory/gpu_cuda.c", "  (void)cu.pop(&left);\n",
        "  left = NULL;\n  (void)left;\n", "cuda_standin_tcp"),
    gpu("the context of another GPU is current", "src/memory/gpu_cuda.c",
        "gli_gpu_result result = cu.retain(context, device);", "gli_gpu_result result = cu.retain(context, 0);",
        "cuda_standin_tcp", "cuda_standin_at_its_worst", "cuda_harsh_inproc"),
    gpu("a stream that captures a graph is used", "src/memory/gpu_copy.c",
        "if (capturing != GLI_GPU_CAPTURE_NONE)", "if (capturing == -1)", "cuda_harsh_inproc"),
    gpu("the library's work ends the capture of a graph", "src/memory/gpu_copy.c",
        "  capture_mode = GLI_GPU_CAPTURE_MODE_RELAXED;\n", "  capture_mode = 0;\n", "cuda_harsh_inproc"),
    gpu("copies of a failed operation go on", STAGED,
        "for (size_t i = 0; i < s->n_gpus; i++) gli_gpu_await_copies(s->gpus[i]);", ";", "cuda_standin_tcp",
        "cuda_harsh_inproc"),
    gpu("memory is pinned while a stream waits", "src/memory/gpu_pinned.c", "bool may = awaited == 0;",
        "bool may = true;", "cuda_harsh_inproc"),
    gpu("a stream waits while memory is pinned", "src/memory/gpu_pinned.c", "bool may = pinning == 0;",
        "bool may = true;", "cuda_harsh_inproc"),
    gpu("memory that cannot be registered is an error", "src/memory/gpu_pinned.c",
        "result == GLI_GPU_NOT_SUPPORTED || result == GLI_GPU_NOT_PERMITTED;", "false;", "cuda_standin_at_its_worst",
        "cuda_harsh_inproc"),
    gpu("a full stream blocks the thread that would empty it", STAGED,
        "  gli_staged_unlock(op->device); /* a full stream blocks the mark */\n  mark_streams(s);\n"
        "  gli_staged_relock(op->device);\n", "  mark_streams(s);\n", "cuda_harsh_inproc"),
    gpu("a full stream blocks the wait for a request", STAGED,
        "  gli_staged_unlock(op->device); /* a full stream blocks this call */\n"
        "  status = make_wait(s, value, stream, gpu, error);\n  gli_staged_relock(op->device);\n",
        "  status = make_wait(s, value, stream, gpu, error);\n", "cuda_harsh_inproc"),
    gpu("memory of a pool has no context", "src/memory/gpu_copy.c",
        "                                \"switching to the device of a buffer\", error);\n  }\n",
        "                                \"switching to the device of a buffer\", error);\n    context = NULL;\n  }\n",
        "cuda_standin_at_its_worst"),
    gpu("a query without a current context is an error", "src/memory/gpu_copy.c",
        "if (result == GLI_GPU_INVALID_CONTEXT) any = gli_gpu_enter_any(api);", "", "cuda_standin_at_its_worst",
        "cuda_harsh_inproc"),
    gpu("a stream waits for a failed operation", STAGED,
        "  if (s->flag != NULL) gli_gpu_flag_raise(s->flag);\n  if (!well) {", "  if (!well) {", "cuda_standin_tcp",
        "cuda_harsh_inproc"),
    gpu("a lost context is used again", "src/memory/gpu_copy.c", "    atomic_store(&gpu->lost, true);\n",
        "    atomic_store(&gpu->lost, false);\n", "cuda_standin_tcp", "cuda_harsh_inproc"),
    # ---- what they must not do -------------------------------------------------------
    gpu("an event is reached before the copy in front of it", CUDA_STANDIN + "streams.c",
        "return atomic_load(&event->reached) >= atomic_load(&event->recorded);",
        "return atomic_load(&event->reached) + 1 >= atomic_load(&event->recorded);", "cuda_standin_tcp"),
    gpu("a copy leaves out the last byte", CUDA_STANDIN + "streams.c", "  memcpy(w->to, w->from, w->bytes);\n",
        "  memcpy(w->to, w->from, w->bytes - 1);\n", "cuda_standin_tcp"),
    # ---- several ports ---------------------------------------------------------------
    rails("the queue of a rail is armed once", "rails.c", "    rails->rail[i].armed = false;\n", ""),
    rails("a payload is read after its sender has left", "ibv_close.c", "    gli_ibv_lanes_leave(pair->lanes);\n",
          "    (void)pair;\n"),
    rails("what has not been read is forgotten", "ibv_one_sided.c",
          "    in->answered = false;\n    pair->to_answer++;\n  }\n  gli_ibv_pair_busy(pair);\n  return true;",
          "  }\n  gli_ibv_pair_busy(pair);\n  return true;"),
    rails("reads that try lanes overrun their queue", "lane_reads.c",
          "lane_bit(lane)) == 0 || !lane_has_room(lane))", "lane_bit(lane)) == 0)"),
    rails("a lost rail goes on reading", "lanes.c",
          "      lane_destroy(&lanes->lane[i]); /* its parts are read again */\n", ""),
    rails("a device takes one of its ports with it", "rails.c",
          "if (rails->port[k].context == device) rail_lose(", "if (rails->port[k].context == device && k == i) rail_lose("),
    rails("peers write over lanes", "lanes.c", "gli_ibv_qp_init(port, lane->qp, IBV_ACCESS_REMOTE_READ);",
          "gli_ibv_qp_init(port, lane->qp, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);"),
    rails("a lane locks two pages", "lanes.c", "max_send_wr = GLI_IBV_LANE_DEPTH,", "max_send_wr = 32 * GLI_IBV_LANE_DEPTH,",
          "transport_ibv_shared_rails"),
    rails("a failed part is not read again", "lane_reads.c",
          "  if (read->message != TRIAL) lanes->again[lanes->n_again++] = *read;\n",
          "  if (read->message != TRIAL) lanes->fetch[read->message].done += read->bytes;\n",
          "transport_ibv_rails_lost_path", "transport_ibv_rails_lost_device"),
]
