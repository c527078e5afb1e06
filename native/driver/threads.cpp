#include "threads.h"

#include <atomic>
#include <cstdlib>
#include <new>
#if defined(HEADWISE_OPENMP)
#include <omp.h>
#else
#include <system_error>
#include <thread>
#include <vector>
#endif
#include <pthread.h>

namespace headwise {
namespace {

// OpenMP's threads do not survive a fork: a child that asked for them would wait for ever. It works alone instead.
std::atomic<bool> forked{false};
const int watching = pthread_atfork(nullptr, nullptr, [] { forked = true; });

// One stretch of memory of a calling thread, for all the threads that work for it.
struct Scratch {
    char *data = nullptr;
    int64_t bytes = 0;
    ~Scratch() { std::free(data); }
    char *of(int64_t wanted) {
        if (wanted > bytes) {
            std::free(data);
            bytes = 0;
            data = static_cast<char *>(std::aligned_alloc(4096, size_t(wanted + 4095) / 4096 * 4096));
            if (!data) throw std::bad_alloc();
            bytes = wanted;
        }
        return data;
    }
};

} // namespace

void in_parallel(int64_t items, int threads, int64_t bytes, const std::function<void(int64_t, void *)> &body) {
    thread_local Scratch scratch;
    (void)watching;
    if (threads > items) threads = int(items);
    if (threads < 1 || forked) threads = 1;
    const int64_t each = (bytes + 4095) / 4096 * 4096 + 256; // 256: no two threads' rooms on the same cache sets
    char *room = scratch.of(each * threads);
    if (threads == 1) {
        for (int64_t item = 0; item < items; ++item) body(item, room);
        return;
    }
#if defined(HEADWISE_OPENMP)
#pragma omp parallel num_threads(threads)
    {
        char *mine = room + each * omp_get_thread_num();
#pragma omp for schedule(dynamic, 1)
        for (int64_t item = 0; item < items; ++item) body(item, mine);
    }
#else
    std::atomic<int64_t> next{0};
    const auto work = [&](int number) {
        for (int64_t item; (item = next.fetch_add(1)) < items;) body(item, room + each * number);
    };
    std::vector<std::thread> crew;
    crew.reserve(size_t(threads));
    try {
        for (int number = 1; number < threads; ++number) crew.emplace_back(work, number);
    } catch (const std::system_error &) { // no more threads to be had: those there are do it all
    }
    work(0);
    for (std::thread &member : crew) member.join();
#endif
}

const char *thread_runtime() {
#if defined(HEADWISE_OPENMP)
    return "libgomp";
#else
    return "own";
#endif
}

} // namespace headwise
