// The maximum of each number's window, by one of the structures of IBM/sliding-window-aggregators.
//
// Arguments: the window, the rows, and how many rows come at a time. The numbers come in on stdin. Says "ready", and in
// the end the seconds that the structure took and the last result. Then waits, so that its memory can be looked at.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

// FiBA.hpp includes utils.h and uses nothing of it; utils.h needs a library that is not in that repository.
#define _UTILS_H_

#include HEADER

struct Max {
    typedef double In, Partial, Out;
    static constexpr double identity = -std::numeric_limits<double>::infinity();
    double lift(const double& value) const { return value; }
    double lower(const double& state) const { return state; }
    double combine(const double& older, const double& younger) const { return older > younger ? older : younger; }
};

int main(int, char** arguments) {
    const size_t size = std::strtoull(arguments[1], nullptr, 10), rows = std::strtoull(arguments[2], nullptr, 10);
    std::vector<double> values(std::strtoull(arguments[3], nullptr, 10)), results(values.size());
    STRUCTURE window WITH;
    std::puts("ready");
    std::fflush(stdout);
    std::chrono::duration<double> spent(0);
    size_t held = 0, count = 0;
    for (size_t done = 0; done < rows; done += count) {
        count = std::min(rows - done, values.size());
        if (std::fread(values.data(), sizeof(double), count, stdin) != count) return 1;
        const auto began = std::chrono::steady_clock::now();
        for (size_t row = 0; row < count; ++row) {
            if (held == size) window.evict();
            else ++held;
            window.insert(values[row]);
            results[row] = window.query();
        }
        spent += std::chrono::steady_clock::now() - began;
    }
    std::printf("%.17g %.17g\n", spent.count(), results[count - 1]);
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
}
