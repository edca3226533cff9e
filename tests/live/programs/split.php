<?php
// Does work of several kinds, and prints what share of the CPU time each took.
function cpu() {
    $used = getrusage();
    return $used["ru_utime.tv_sec"] + $used["ru_stime.tv_sec"]
        + 1e-6 * ($used["ru_utime.tv_usec"] + $used["ru_stime.tv_usec"]);
}
function recursion($n = 15) { return $n < 2 ? $n : recursion($n - 1) + recursion($n - 2); }
class Thrower {
    function fail($i) { if ($i % 2) throw new InvalidArgumentException("x$i"); return $i; }
}
function raising() {
    $thrower = new Thrower;
    $sum = 0;
    for ($i = 0; $i < 900; $i++) {
        try { $sum += $thrower->fail($i); } catch (Exception $e) { $sum--; }
    }
    return $sum;
}
function callbacks() {
    $doubled = array_map(fn($x) => $x * 2, range(1, 400));
    usort($doubled, function ($x, $y) { return $y - $x; });
    return array_sum(array_filter($doubled, fn($x) => $x & 1));
}
function gen($n) { for ($i = 0; $i < $n; $i++) yield $i * $i; }
function generators() { $sum = 0; foreach (gen(3000) as $value) $sum += $value; return $sum; }
function in_c() {
    $text = str_repeat("Hello World, this is it. ", 300);
    $sum = 0;
    for ($i = 0; $i < 6; $i++) {
        $sum += strlen(md5($text)) + count(explode(" ", strtoupper($text)));
    }
    return $sum;
}
$took = array_fill_keys(["recursion", "raising", "callbacks", "generators", "in_c"], 0.0);
function work($seconds) {
    global $took;
    $to = cpu() + $seconds;
    while (cpu() < $to) {
        foreach (array_keys($took) as $name) {
            $from = cpu();
            for ($i = 0; $i < 60; $i++) $name();
            $took[$name] += cpu() - $from;
        }
    }
}
usleep(300000); // by its end the reader of frames is there
work((float) $argv[1]);
$all = array_sum($took);
echo json_encode(array_map(fn($one) => $one / $all, $took)), "\n";
