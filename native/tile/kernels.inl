// The algorithm, once: included by every instruction set into its own anonymous namespace.
using namespace headwise;

#include "math.inl"
#include "gemm.inl"
#include "pairs.inl"
#include "pack.inl"
#include "mask.inl"
#include "rules.inl"
#include "score.inl"
#include "softmax.inl"
#include "stage.inl"
#include "forward.inl"
#include "backward_tile.inl"
#include "backward_rules.inl"
#include "backward.inl"
#include "survey.inl"
#include "turn.inl"
#include "probe.inl"

constexpr int64_t ITEM = 44 * TILE; // most rows of an item: what a thread takes at a time

#define HEADWISE_KERNELS(name)                                                                                         \
    {name,                                                                                                             \
     LANES,                                                                                                            \
     TILE,                                                                                                             \
     ITEM,                                                                                                             \
     KEYS,                                                                                                             \
     FEW,                                                                                                              \
     forward_scratch,                                                                                                  \
     forward,                                                                                                          \
     merge,                                                                                                            \
     prepare,                                                                                                          \
     backward_scratch,                                                                                                 \
     backward,                                                                                                         \
     write_queries,                                                                                                    \
     survey_scratch,                                                                                                   \
     survey,                                                                                                           \
     turn,                                                                                                             \
     probe_floats,                                                                                                     \
     probe_bf16,                                                                                                       \
     probe_read}
