// Names of functions → short forms that fit. `name_parts.py` describes the rules; both pass the same
// table of tests.

const ELLIPSIS = "...";
const LONGEST_NAME = 1 << 13; // characters; of more, the structure is not looked at
const NAME_TOKEN = /operator(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\)|\[\])(?=[(<\s]|$)|->|=>|::|[()<>[\]{} ./]/g;
const CLOSING = { "(": ")", "<": ">", "[": "]", "{": "}" };
const NAME_SUFFIX = /(?: \[clone [^\]]*\])+$|@+[A-Z][\w.]*$|::h[0-9a-f]{16}$|\.(?:isra|constprop|part|cold|lto_priv|llvm|localalias)(?:\.\w+){0,4}$/;
const QUALIFIERS = /^(?: const| volatile| noexcept| ?&|\[abi:\w+\])*$/;
/** V8's word for a function that only its file and line tell from others. */
const NAMELESS = /^JS:[^\w$]?$/;
const SOURCE_LINE = /^[^/\s]+:\d+(?::\d+)?$/;
const BRACKET_POSITION = / \[(fn \d+) of \d+\]$/;
const INLINE_SCOPES = ["__cxx11", "__1", "_V2", "__detail", "(anonymous namespace)", "{anonymous}", "<locals>"];
const NEEDS_OWNER = /^(?:operator.*|\{.*|<.*|func\d.*|\d+)$/;

/** A name of at most `width` characters; `objectName` is the file that it is in. */
function shortName(name, width, objectName = "") {
  if (name.length <= width) return name;
  let last = name;
  for (last of shorterNames(name, objectName)) if (last.length <= width) return last;
  return withoutMiddle(last, width);
}

function withoutMiddle(name, width) {
  if (name.length <= width) return name;
  const room = width - ELLIPSIS.length;
  if (width < 2 * ELLIPSIS.length) return name.slice(0, Math.max(room, 0)) + ELLIPSIS;
  const head = Math.floor(room / 3);
  return name.slice(0, head) + ELLIPSIS + name.slice(head - room);
}

/** Split a text at a word, its first place unless `at` is another: the text before it and after it. */
function splitAt(whole, word, at = whole.indexOf(word)) {
  return at < 0 ? [whole, ""] : [whole.slice(0, at), whole.slice(at + word.length)];
}

function* shorterNames(name, objectName) {
  if (name.startsWith("[") || name.length > LONGEST_NAME) return;
  const [before, after] = splitAt(name, "->");
  if (after && !/(?:operator| |-)$/.test(before)) {
    yield* shorterBrackets(before, after, objectName);
    return;
  }
  const [own, place] = splitAt(name, " ");
  const file = place.slice(place.lastIndexOf("/") + 1);
  if (name.startsWith("py::")) {
    const [called, path] = splitAt(name.slice(4), ":");
    yield `py::${called}:${path.slice(path.lastIndexOf("/") + 1)}`;
    yield `py::${called}`;
  } else if (SOURCE_LINE.test(file)) {
    yield `${own} ${file}`;
    yield NAMELESS.test(own) ? file : own;
  } else {
    const end = name.endsWith("@plt") ? "@plt" : "";
    for (const one of shorterPlain(name.slice(0, name.length - end.length))) yield one + end;
  }
}

/** Ever shorter forms of a function between two named ones, with its file and place. */
function* shorterBrackets(before, after, objectName) {
  const position = BRACKET_POSITION.exec(after);
  const which = position ? position[0].slice(2, -1) : `after ${before}`;
  const file = objectName.slice(objectName.lastIndexOf("/") + 1);
  if (file) yield `[in ${file}, ${which}]`;
  const bare = file.replace(/\.so[.\d]*$/, "");
  if (file) yield `[in ${bare}, ${which}]`;
  if (bare) yield `[in ${bare.replace(/[-.\d]+$/, "") || bare}, ${which}]`;
  yield `[${which}]`;
  if (position) yield `[${position[1]}]`;
}

function* shorterPlain(name) {
  let whole = name.replace(NAME_SUFFIX, "");
  const parts = partsOf(whole);
  if (!parts) return;
  const params = parts.groups.filter((group) => isParameters(whole, group));
  const last = params[params.length - 1];
  if (last && QUALIFIERS.test(whole.slice(last[1]))) {
    const begin = beginOfName(whole, last[0], parts.blanks);
    yield name.slice(begin);
    whole = withoutSpans(whole.slice(0, last[1]), [[0, begin], ...params.filter(([start]) => start >= begin)]);
    yield whole;
  }
  whole = withoutArguments(whole);
  yield whole;
  yield* withoutScopes(whole);
}

/** The groups, separators and blanks at the top level of a name; null if brackets do not match. */
function partsOf(whole) {
  const parts = { groups: [], separators: [], blanks: [] };
  const closing = [];
  let begin = 0;
  for (const { 0: word, index } of whole.matchAll(NAME_TOKEN)) {
    if (CLOSING[word]) {
      if (!closing.length) begin = index;
      closing.push(CLOSING[word]);
    } else if (closing.length) {
      if (word !== closing[closing.length - 1]) continue;
      closing.pop();
      if (!closing.length) parts.groups.push([begin, index + 1]);
    } else if (word === " ") parts.blanks.push(index);
    else if (["::", ".", "/"].includes(word)) parts.separators.push([index, index + word.length]);
  }
  return closing.length ? null : parts;
}

/** Whether a group is of parameters: not a type in Go, nor a namespace without a name. */
function isParameters(whole, [begin, end]) {
  const inside = whole.slice(begin, end);
  const isGo = inside.startsWith("(*") && whole[end] === ".";
  return inside.startsWith("(") && begin > 0 && !INLINE_SCOPES.includes(inside) && !isGo;
}

/** The place after the return type, at which the name before parameters begins. */
function beginOfName(whole, end, blanks) {
  const operator = whole.slice(0, end).search(/\boperator\b/);
  const last = operator < 0 ? end : operator;
  return Math.max(0, ...blanks.filter((blank) => blank < last).slice(-1).map((blank) => blank + 1));
}

function withoutSpans(whole, spans) {
  let [kept, at] = ["", 0];
  for (const [begin, end] of spans) {
    kept += whole.slice(at, begin);
    at = end;
  }
  return kept + whole.slice(at);
}

/** Drop template and type arguments, and what is in a lambda's or a Rust type's brackets. */
function withoutArguments(whole) {
  const parts = partsOf(whole);
  if (!parts) return whole;
  const hasScopes = parts.separators.some(([begin]) => whole[begin] === ":");
  let [kept, at] = ["", 0];
  for (const [begin, end] of parts.groups) {
    let [before, inside] = [whole.slice(at, begin), whole.slice(begin, end)];
    const isArgument = /(?:[\w:]|operator\W{0,4})$/.test(before.slice(-16));
    if (inside[0] === "<" && isArgument) [before, inside] = [before.replace(/::$/, ""), ""];
    else if (inside[0] === "[" && isArgument && !hasScopes) inside = "";
    else if (inside[0] === "<" && hasScopes && !before.endsWith(".")) inside = shortType(inside);
    else if (inside.startsWith("{lambda(")) inside = `{lambda${inside.slice(inside.lastIndexOf("#"))}`;
    kept += before + inside;
    at = end;
  }
  return (kept + whole.slice(at)).trimEnd();
}

/** `<Vec as Index>` of `<alloc::vec::Vec<T> as core::ops::Index<I>>`. */
function shortType(whole) {
  const inside = whole.slice(1, -1);
  const at = inside.startsWith("<") ? inside.lastIndexOf(" as ") : inside.indexOf(" as ");
  const [own, trait] = splitAt(inside, " as ", at);
  const last = (path) => (splitAt(path, "<")[0] || path).split("::").pop();
  return `<${last(own)}${at < 0 ? "" : ` as ${last(trait)}`}>`;
}

/** A name with ever fewer of the namespaces, modules and directories before it. */
function* withoutScopes(whole) {
  yield whole;
  const qualified = /^<([^<>]*)>(?=::)/.exec(whole);
  if (qualified) yield (whole = splitAt(qualified[1], " as ")[0] + whole.slice(qualified[0].length));
  let { separators } = partsOf(whole) || { separators: [] };
  if (separators.some(([begin]) => whole[begin] === ":")) separators = separators.filter(([begin]) => whole[begin] === ":");
  for (const [place, [, end]] of separators.entries()) {
    const following = place + 1 < separators.length ? separators[place + 1][0] : whole.length;
    const own = whole.slice(end, following);
    const isLast = following === whole.length;
    if (!own || INLINE_SCOPES.includes(own) || (isLast && NEEDS_OWNER.test(own))) continue;
    yield whole.slice(end);
    if (own.startsWith("(*") && own.endsWith(")")) yield own.slice(2, -1) + whole.slice(following);
  }
}
