// From a row of logits to its law, without a sort: top-k and top-p each find the least logit that is kept, among the few
// that can be it. Logits equal to the least one are all kept; a row with NaN or without a finite largest is NaN.
//
// Sums that are compared are whole numbers, weights in units of 2^-40, as in the CUDA kernel.

using Whole = uint64_t;

struct Candidate {
    uint32_t key;  // orders as the logit does
    float weight;
};

struct Cut {
    float least;  // logit that is kept
    Whole kept;
};

inline uint32_t ordered(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000;
}

inline float from_ordered(uint32_t key) {
    return __builtin_bit_cast(float, key >> 31 ? key & 0x7fffffff : ~key);
}

inline Whole units(float weight) { return (Whole)(int64_t)(weight * 0x1p40f); }

// Up to 16 values; the lanes beyond n are -inf.
inline vec load_logits(const float* p, int64_t n) {
    if (n >= 16) return load(p);
    float part[16];
    store(part, set1(-__builtin_inff()));
    std::memcpy(part, p, n * sizeof(float));
    return load(part);
}

// The first logit, from the largest down, at which the running sum of weights reaches the goal, which all of them do; found
// by the leading 11 bits of its key, then 11, then 10. Moves the candidates about.
Cut cut_at(Candidate* candidates, int64_t count, Whole goal) {
    Cut cut{};
    uint32_t key = 0;
    constexpr int froms[] = {21, 10, 0};
    for (int from : froms) {
        const uint32_t last = from ? (1 << 11) - 1 : (1 << 10) - 1;
        Whole histogram[1 << 11] = {};
        auto bin_of = [&](const Candidate& c) { return last - (c.key >> from & last); };  // the largest first
        for (int64_t i = 0; i < count; i++) histogram[bin_of(candidates[i])] += units(candidates[i].weight);
        uint32_t bin = 0;
        for (; histogram[bin] < goal; bin++) goal -= histogram[bin], cut.kept += histogram[bin];
        if (!from) cut.kept += histogram[bin];
        key |= (last - bin) << from;
        int64_t left = 0;
        for (int64_t i = 0; i < count; i++) {
            const Candidate c = candidates[i];
            candidates[left] = c;
            left += bin_of(c) == bin;
        }
        count = left;
    }
    cut.least = from_ordered(key);
    return cut;
}

struct LawRow {
    const Law& a;
    const float* logits;
    float* p;
    Candidate* candidates;  // [vocab or more]
    float* tops;            // the largest of each 16 logits that stand 16 apart

    int64_t top_count() const { return (a.vocab + 255) / 256 * 16; }

    float find_tops() const {
        vec largest_yet = set1(-__builtin_inff());
        for (int64_t from = 0; from < a.vocab; from += 256) {
            vec top = set1(-__builtin_inff());
            for (int64_t i = from; i < from + 256 && i < a.vocab; i += 16)
                top = max(load_logits(logits + i, a.vocab - i), top);
            store(tops + from / 16, top);
            largest_yet = max(top, largest_yet);
        }
        return largest(largest_yet);
    }

    // Those whose value is at the level or above.
    template <class Weight>
    int64_t collect(const float* values, float level, const Weight& weight) const {
        int64_t count = 0;
        for (int64_t i = 0; i < a.vocab; i += 16) {
            uint32_t lanes = at_least(load_logits(values + i, a.vocab - i), set1(level));
            if (a.vocab - i < 16) lanes &= (1u << (a.vocab - i)) - 1;
            for (; lanes; lanes &= lanes - 1) {
                const int64_t at = i + __builtin_ctz(lanes);
                candidates[count++] = {ordered(logits[at]), weight(at)};
            }
        }
        return count;
    }

    // The k-th largest logit is not below the k-th largest top: k logits at least are no less than that.
    float kth() const {
        const Whole goal = (Whole)a.top_k * units(1);
        float level = -__builtin_inff();
        if (a.top_k <= top_count()) {
            for (int64_t i = 0; i < top_count(); i++) candidates[i] = {ordered(tops[i]), 1};
            level = cut_at(candidates, top_count(), goal).least;
        }
        const int64_t count = collect(logits, level, [](int64_t) { return 1.0f; });
        return count < a.top_k ? level : cut_at(candidates, count, goal).least;
    }

    // p becomes e^((logit - highest) / temperature), 0 below the least; returns their sum.
    double weigh(float highest, float least) const {
        double total = 0;
        for (int64_t from = 0; from < a.vocab; from += 256) {
            vec part = zero();
            for (int64_t i = from; i < from + 256 && i < a.vocab; i += 16) {
                const vec x = load_logits(logits + i, a.vocab - i);
                const vec weight = exp(div(sub(x, set1(highest)), set1(a.temperature)));
                const vec kept = unless_below(x, set1(least), weight);
                store_row(p + i, kept, a.vocab - i);
                part = add(part, kept);
            }
            total += sum(part);
        }
        return total;
    }

    // All weights below the level together weigh less than what may be dropped.
    Cut nucleus(double total) const {
        const double top_p = a.top_p > 0 ? a.top_p : 0;
        const int64_t count = collect(p, (float)((1 - top_p) * total / a.vocab), [&](int64_t i) { return p[i]; });
        Whole all = 0, goal = (Whole)(top_p * total * 0x1p40);
        for (int64_t i = 0; i < count; i++) all += units(candidates[i].weight);
        goal = goal < all ? goal : all;
        return cut_at(candidates, count, goal > 0 ? goal : 1);
    }

    void fill() const {
        const float highest = find_tops();
        float least = 0 < a.top_k && a.top_k < a.vocab ? kth() : -__builtin_inff();
        double total = weigh(highest, least);
        if (a.top_p < 1 && total > 0) {
            const Cut cut = nucleus(total);
            least = cut.least, total = (double)cut.kept * 0x1p-40;
        }
        const vec scale = set1((float)(1 / total));
        for (int64_t i = 0; i < a.vocab; i += 16) {
            const vec kept = unless_below(load_logits(logits + i, a.vocab - i), set1(least), load_row(p + i, a.vocab - i));
            store_row(p + i, mul(kept, scale), a.vocab - i);
        }
    }
};

void law(const Law& a, int64_t begin, int64_t end) {
    static thread_local Scratch scratch;
    const int64_t room = (a.vocab + 255) / 256 * 256;
    Candidate* candidates = (Candidate*)scratch.of(room * sizeof(Candidate) + room / 16 * sizeof(float));
    for (int64_t m = begin; m < end; m++)
        LawRow{a, a.logits + m * a.vocab, a.p + m * a.vocab, candidates, (float*)(candidates + room)}.fill();
}
