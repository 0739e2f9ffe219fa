/* Loops over the bytes of columns. Each gives what the Python function that is named above it gives, to the bit.
 *
 * They take plain memory, as Arrow lays columns out: text is `data` (`size` bytes) and `offsets`, one more than rows; or,
 * where it lies in many places, an address and a length for each row (`texts`, `lengths`). They allocate little, keep
 * nothing, and touch no object of Python, so that they run beside its threads.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the hashes are defined over little-endian lanes"
#endif

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef int64_t i64;

enum { WORD = 8, AHEAD = 12 };

/* --- hashes.py ------------------------------------------------------------------------------------------- */

static inline u64 mixed(u64 h) {
    h ^= h >> 30;
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 27;
    h *= 0x94D049BB133111EBu;
    return h ^ h >> 31;
}

/* hashes._mix: in place. */
void mix(u64 *h, i64 count) {
    for (i64 i = 0; i < count; i++) h[i] = mixed(h[i]);
}

/* hashes.hash_rows: what one column adds to the hashes of rows. */
void add_mixed(u64 *h, const u64 *own, u64 salt, i64 count) {
    for (i64 i = 0; i < count; i++) h[i] += mixed(own[i] ^ salt);
}

/* The eight bytes from `at` on; those past `end` are zeros. */
static inline u64 lane(const u8 *data, i64 at, i64 end, i64 size) {
    u64 word = 0;
    i64 left = end - at;
    if (left <= 0) return 0;
    if (at + WORD <= size) {
        memcpy(&word, data + at, WORD);
        return left >= WORD ? word : word & ((1ull << 8 * left) - 1);
    }
    for (i64 i = 0; i < left && i < WORD; i++) word |= (u64)data[at + i] << 8 * i;
    return word;
}

enum { PREFIX_LANES = 32, LENGTHS = 64 };

/* Eight bytes, all of a row. */
static inline u64 word(const u8 *at) {
    u64 found;
    memcpy(&found, at, WORD);
    return found;
}

/* hashes.hash64. Rows that begin like the first one, lane by lane, begin with what those lanes make of the seed, which
 * is reckoned once for each length. */
void hash64(const i32 *offsets, const u8 *data, i64 size, i64 rows, u64 *out) {
    const u64 seed = 0x9E3779B97F4A7C15u;
    i64 known[LENGTHS];
    u64 (*states)[PREFIX_LANES + 1] = malloc(sizeof(*states) * LENGTHS);
    u64 first[PREFIX_LANES];
    i64 lanes = 0;
    for (int i = 0; i < LENGTHS; i++) known[i] = -1;
    if (rows && states) {
        lanes = (offsets[1] - offsets[0]) / WORD;
        if (lanes > PREFIX_LANES) lanes = PREFIX_LANES;
        memcpy(first, data + offsets[0], lanes * WORD);
    }
    for (i64 row = 0; row < rows; row++) {
        i64 at = offsets[row], end = offsets[row + 1], length = end - at;
        u64 h = seed ^ (u64)length;
        if (lanes) {
            i64 shared = 0, most = length / WORD < lanes ? length / WORD : lanes;
            while (shared < most && word(data + at + shared * WORD) == first[shared]) shared++;
            int slot = length % LENGTHS;
            if (known[slot] != length) {
                known[slot] = length;
                states[slot][0] = h;
                for (i64 i = 0; i < lanes; i++) states[slot][i + 1] = mixed(states[slot][i] ^ first[i]);
            }
            h = states[slot][shared];
            at += shared * WORD;
        }
        for (; end - at >= WORD; at += WORD) h = mixed(h ^ word(data + at));
        if (at < end) h = mixed(h ^ lane(data, at, end, size));
        out[row] = mixed(h);
    }
    free(states);
}

/* --- diff.py --------------------------------------------------------------------------------------------- */

static inline int compared(const u8 *one, i64 length, const u8 *other, i64 others) {
    int found = memcmp(one, other, length < others ? length : others);
    return found ? found : (length > others) - (length < others);
}

/* diff.places: where each text stands among others, which are in order and each once, or -1. It is looked for from where
 * the one before was found, in steps that grow, or from the beginning where it sorts before that one. */
void places(const i32 *offsets, const u8 *data, i64 rows, const i32 *other_offsets, const u8 *others, i64 count,
            i64 *out) {
#define AGAINST(i) compared(text, length, others + other_offsets[i], other_offsets[(i) + 1] - other_offsets[i])
    i64 at = 0, before = 0;
    for (i64 row = 0; row < rows; row++) {
        const u8 *text = data + offsets[row];
        i64 length = offsets[row + 1] - offsets[row], step = 1;
        if (row && compared(text, length, data + offsets[row - 1], before) < 0) at = 0;
        before = length;
        while (at + step <= count && AGAINST(at + step - 1) > 0) {
            at += step;
            step *= 2;
        }
        for (i64 past = at + step - 1 < count ? at + step - 1 : count; at < past;) {
            i64 middle = at + (past - at) / 2;
            if (AGAINST(middle) > 0)
                at = middle + 1;
            else
                past = middle;
        }
        out[row] = at < count && !AGAINST(at) ? at : -1;
    }
#undef AGAINST
}

/* --- arrow.py -------------------------------------------------------------------------------------------- */

/* arrow.occurs: whether a byte is among them. */
int occurs(const u8 *data, i64 size, int code) {
    return memchr(data, code, size) != NULL;
}

/* arrow.count_after: adds to `found` how often `code` is followed by each of `count` texts of at most four bytes. `masks`
 * has the bits that a text has. */
void count_after(const u8 *data, i64 size, int code, const u32 *texts, const u32 *masks, i64 count, i64 *found) {
    const u64 ones = 0x0101010101010101u, highs = ones << 7, sought = ones * (u8)code;
    for (i64 begin = 0; begin < size; begin += WORD) {
        u64 some = lane(data, begin, size, size) ^ sought;
        /* A zero byte is where `code` is; a byte behind one may be marked too. */
        for (u64 marks = (some - ones) & ~some & highs; marks; marks &= marks - 1) {
            i64 at = begin + __builtin_ctzll(marks) / 8;
            if (at + 1 >= size || data[at] != code) continue;
            u32 next = (u32)lane(data, at + 1, size, size);
            for (i64 i = 0; i < count; i++) found[i] += (next & masks[i]) == texts[i];
        }
    }
}

/* --- urls/scan.py ---------------------------------------------------------------------------------------- */

enum { LANES = 16 };
typedef u8 Lanes __attribute__((vector_size(LANES)));

static inline u8 odd(u8 c, u8 before, u8 second, u8 opening) {
    u8 ends = c - 0x21, brackets = c - 0x5B, quotes = c - 0x22, signs = c - 0x3B;
    return ends > 0x59 || brackets < 4 || quotes < 5 || signs < 5 || c == '`' || c == opening ||
           (before == '/' && (c == '.' || (c == '/' && second != ':')));
}

/* urls.scan._mark: which bytes to look at; gives whether there are any. `parenthesis`: "(" is one of them; `colons`:
 * how many there are. */
int mark(const u8 *block, i64 size, int parenthesis, u8 *marks, i64 *colons) {
    const u8 opening = parenthesis ? '(' : '`';
    u8 any = 0;
    i64 at = 0, count = 0;
    for (; at < 2 && at < size; at++) {
        any |= marks[at] = odd(block[at], at ? block[at - 1] : '/', 0, opening);
        count += block[at] == ':';
    }
    Lanes some = {0};
    while (at + LANES <= size) {
        Lanes seen = {0};
        for (int round = 0; round < 255 && at + LANES <= size; round++, at += LANES) {
            Lanes c, before, second, found;
            memcpy(&c, block + at, LANES);
            memcpy(&before, block + at - 1, LANES);
            memcpy(&second, block + at - 2, LANES);
            found = (Lanes)(c - 0x21 > 0x59) | (Lanes)(c - 0x5B < 4) | (Lanes)(c - 0x22 < 5) | (Lanes)(c - 0x3B < 5);
            found |= (Lanes)(c == '`') | (Lanes)(c == opening);
            found |= (Lanes)(before == '/') & ((Lanes)(c == '.') | ((Lanes)(c == '/') & (Lanes)(second != ':')));
            found &= 1;
            some |= found;
            seen -= (Lanes)(c == ':');
            memcpy(marks + at, &found, LANES);
        }
        for (int i = 0; i < LANES; i++) count += seen[i];
    }
    for (; at < size; at++) {
        any |= marks[at] = odd(block[at], block[at - 1], block[at - 2], opening);
        count += block[at] == ':';
    }
    for (int i = 0; i < LANES; i++) any |= some[i];
    *colons = count;
    return any;
}

/* --- partition/order.py ---------------------------------------------------------------------------------- */

/* The eight bytes from `at` on as a number in whose order texts stand, zeros where the text has ended. */
static inline u64 key_of(const u8 *text, i64 length, i64 at) {
    u64 word = 0;
    i64 left = length - at;
    if (left <= 0) return 0;
    if (left >= WORD) {
        memcpy(&word, text + at, WORD);
    } else if (length >= WORD) { /* what goes before is read along, and shifted out */
        memcpy(&word, text + length - WORD, WORD);
        word >>= 8 * (WORD - left);
    } else {
        for (i64 i = 0; i < left; i++) word |= (u64)text[at + i] << 8 * i;
    }
    return __builtin_bswap64(word);
}

enum { DIGIT = 11, FEW = 24 };

typedef struct {
    const u8 *const *texts;
    const i32 *lengths;
    u64 *keys, *spare_keys;
    u32 *rows, *spare_rows;
    int equal;
} Sorting;

/* By numbers of `bits` bits, in passes over digits; the result is in place. */
static void by_digits(Sorting *s, i64 start, i64 count, int bits) {
    u64 *keys = s->keys + start, *to_keys = s->spare_keys + start;
    u32 *rows = s->rows + start, *to_rows = s->spare_rows + start;
    int most = count < 4096 ? 8 : DIGIT, passes = (bits + most - 1) / most, width = (bits + passes - 1) / passes;
    for (int pass = 0; pass < passes; pass++) {
        u32 counts[1 << DIGIT] = {0};
        int shift = pass * width;
        u32 mask = (1u << width) - 1, sum = 0;
        for (i64 i = 0; i < count; i++) counts[keys[i] >> shift & mask]++;
        for (u32 digit = 0; digit <= mask; digit++) {
            u32 here = counts[digit];
            counts[digit] = sum;
            sum += here;
        }
        for (i64 i = 0; i < count; i++) {
            u32 at = counts[keys[i] >> shift & mask]++;
            to_keys[at] = keys[i];
            to_rows[at] = rows[i];
        }
        u64 *k = keys;
        keys = to_keys;
        to_keys = k;
        u32 *r = rows;
        rows = to_rows;
        to_rows = r;
    }
    if (passes & 1) {
        memcpy(s->keys + start, keys, count * sizeof *keys);
        memcpy(s->rows + start, rows, count * sizeof *rows);
    }
}

/* Few of them. */
static void by_insertion(u64 *keys, u32 *rows, i64 count) {
    for (i64 i = 1; i < count; i++) {
        u64 key = keys[i];
        u32 row = rows[i];
        i64 at = i;
        for (; at && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            rows[at] = rows[at - 1];
        }
        keys[at] = key;
        rows[at] = row;
    }
}

/* Texts that share their first `depth` bytes: by a word of each, and where that leaves ties by the next. Bits in which
 * no two words differ are left out, so that names with a number take two or three passes. */
static void by_words(Sorting *s, i64 start, i64 count, i64 depth) {
    u64 *keys = s->keys + start;
    u32 *rows = s->rows + start;
    for (;;) {
        u64 all = ~0ull, some = 0;
        i64 longest = 0;
        for (i64 i = 0; i < count; i++) {
            i64 length = s->lengths[rows[i]];
            keys[i] = key_of(s->texts[rows[i]], length, depth);
            all &= keys[i];
            some |= keys[i];
            if (length > longest) longest = length;
        }
        u64 differ = all ^ some;
        if (!differ) { /* all share this word, too */
            if (longest <= depth + WORD) {
                s->equal = 1; /* none goes on, and no text has a NUL where another has ended */
                return;
            }
            depth += WORD;
            continue;
        }
        if (count <= FEW) {
            by_insertion(keys, rows, count);
            break;
        }
        int bits = 0, runs = 0, shifts[WORD * 8], widths[WORD * 8];
        for (int bit = 63; bit >= 0;) {
            if (!(differ >> bit & 1)) {
                bit--;
                continue;
            }
            int width = 0;
            while (bit >= 0 && differ >> bit & 1) width++, bit--;
            shifts[runs] = bit + 1;
            widths[runs++] = width;
            bits += width;
        }
        for (i64 i = 0; i < count; i++) {
            u64 packed = 0;
            for (int run = 0; run < runs; run++) {
                u64 mask = widths[run] == 64 ? ~0ull : (1ull << widths[run]) - 1;
                packed = (widths[run] == 64 ? 0 : packed << widths[run]) | (keys[i] >> shifts[run] & mask);
            }
            keys[i] = packed;
        }
        by_digits(s, start, count, bits);
        break;
    }
    for (i64 i = 0; i < count;) {
        i64 next = i + 1;
        while (next < count && keys[next] == keys[i]) next++;
        if (next - i > 1) by_words(s, start + i, next - i, depth + WORD);
        i = next;
    }
}

/* How many bytes all texts share at their beginning. */
static i64 shared(const u8 *const *texts, const i32 *lengths, i64 rows) {
    i64 prefix = rows ? lengths[0] : 0;
    for (i64 row = 1; row < rows && prefix; row++) {
        if (lengths[row] < prefix) prefix = lengths[row];
        if (memcmp(texts[row], texts[0], prefix)) {
            i64 same = 0;
            while (texts[row][same] == texts[0][same]) same++;
            prefix = same;
        }
    }
    return prefix;
}

/* partition.order.in_order: the rows in bytewise order of their texts, which have no NUL. Gives 1 where two are equal, 0
 * where none are, -1 where there is no memory. */
int in_order(const u8 *const *texts, const i32 *lengths, i64 rows, u64 *order) {
    Sorting s = {texts, lengths, 0, 0, 0, 0, 0};
    s.keys = malloc(sizeof(u64) * rows);
    s.spare_keys = malloc(sizeof(u64) * rows);
    s.rows = malloc(sizeof(u32) * rows);
    s.spare_rows = malloc(sizeof(u32) * rows);
    int found = -1;
    if (s.keys && s.spare_keys && s.rows && s.spare_rows) {
        for (i64 i = 0; i < rows; i++) s.rows[i] = (u32)i;
        by_words(&s, 0, rows, shared(texts, lengths, rows));
        for (i64 i = 0; i < rows; i++) order[i] = s.rows[i];
        found = s.equal;
    }
    free(s.keys);
    free(s.spare_keys);
    free(s.rows);
    free(s.spare_rows);
    return found;
}

/* partition.order.places_among: how many borders, which ascend, are not behind each text. `marks`: room for a number
 * a border. */
void places_among(const i32 *offsets, const u8 *data, i64 rows, const i32 *border_offsets, const u8 *borders, i64 count,
                  u64 *marks, i64 *out) {
    const u8 *first = borders + border_offsets[0], *last = borders + border_offsets[count - 1];
    i64 shared = 0, most = border_offsets[1] - border_offsets[0], other = border_offsets[count] - border_offsets[count - 1];
    if (other < most) most = other;
    while (shared < most && first[shared] == last[shared]) shared++;
    for (i64 i = 0; i < count; i++)
        marks[i] = key_of(borders + border_offsets[i], border_offsets[i + 1] - border_offsets[i], shared);
    for (i64 row = 0; row < rows; row++) {
        i64 begin = offsets[row], length = offsets[row + 1] - begin;
        int begins = compared(data + begin, length < shared ? length : shared, first, shared);
        if (begins) {
            out[row] = begins < 0 ? 0 : count;
            continue;
        }
        u64 key = key_of(data + begin, length, shared);
        i64 past = 0, low = 0; /* the borders before `past` have no greater mark than the text */
        for (i64 span = count; span;) {
            i64 half = span / 2;
            int behind = marks[past + half] > key;
            past = behind ? past : past + half + 1;
            span = behind ? half : span - half - 1;
        }
        for (i64 span = past; span;) { /* those before `low` have a smaller one */
            i64 half = span / 2;
            int before = marks[low + half] < key;
            low = before ? low + half + 1 : low;
            span = before ? span - half - 1 : half;
        }
        for (i64 span = past - low; span;) { /* of those with the same the bytes decide */
            i64 half = span / 2, at = border_offsets[low + half];
            int behind = compared(borders + at, border_offsets[low + half + 1] - at, data + begin, length) > 0;
            low = behind ? low : low + half + 1;
            span = behind ? half : span - half - 1;
        }
        out[row] = low;
    }
}

/* Where the rows of a column lie, an address and a length each. */
void addressed(const i32 *offsets, const u8 *data, i64 rows, const u8 **texts, i32 *lengths) {
    for (i64 row = 0; row < rows; row++) {
        texts[row] = data + offsets[row];
        lengths[row] = offsets[row + 1] - offsets[row];
    }
}

/* arrow.taken, of text: the offsets of the rows in `order`; gives where the last one ends. */
i64 taken_offsets(const i32 *lengths, const i64 *order, i64 count, i32 *out) {
    i64 at = 0;
    for (i64 i = 0; i < count; i++) {
        out[i] = (i32)at;
        at += lengths[order[i]];
    }
    out[count] = (i32)at;
    return at;
}

/* The same: their bytes. */
void taken_bytes(const u8 *const *texts, const i32 *lengths, const i64 *order, i64 count, u8 *out) {
    for (i64 i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            const u8 *soon = texts[order[i + AHEAD]];
            __builtin_prefetch(soon);
            __builtin_prefetch(soon + 64);
        }
        memcpy(out, texts[order[i]], lengths[order[i]]);
        out += lengths[order[i]];
    }
}

/* --- render/urlset.py ------------------------------------------------------------------------------------ */

typedef struct {
    const i32 *offsets; /* of a column, or of the words; NULL: all rows have the whole of `data` */
    const u8 *data;
    i64 length; /* of that */
    const i32 *words; /* which word each row has; NULL: a column */
} Part;

/* render.urlset.Entries.chunks: the parts of each row from `start` to before `stop`, one after the other; gives the end
 * of what was written. */
u8 *joined(const Part *parts, i64 count, i64 start, i64 stop, u8 *out) {
    for (i64 row = start; row < stop; row++) {
        for (i64 i = 0; i < count; i++) {
            const Part *part = parts + i;
            if (!part->offsets) {
                memcpy(out, part->data, part->length);
                out += part->length;
                continue;
            }
            i64 at = part->words ? part->words[row] : row, begin = part->offsets[at];
            i64 length = part->offsets[at + 1] - begin;
            memcpy(out, part->data + begin, length);
            out += length;
        }
    }
    return out;
}
