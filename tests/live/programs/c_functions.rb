# Does work in C functions of Ruby in two threads, and prints what share of the CPU time each took.
def cpu; Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID); end
NUMBERS = (0...12_000).map { |i| i * 7919 % 20_011 }.freeze
TEXT = ("lorem ipsum dolor " * 2000).freeze
BIG = (1 << 20_001) / 3
WORK = {
  "Array#sort!" => -> { NUMBERS.dup.sort! },
  "String#gsub" => -> { TEXT.gsub("or", "x") },
  "Integer.sqrt" => -> { 3.times { Integer.sqrt(BIG) } },
  "Integer#pow" => -> { (BIG >> 19_000).pow(BIG >> 19_300, BIG >> 19_000 | 1) },
  "Array#sort_by!" => -> { NUMBERS.first(1000).sort_by! { |number| -number } },
  "Enumerable#inject" => -> { (1..6000).inject { |sum, number| sum + number } },
}.freeze
def work(seconds)
  took = Hash.new(0.0)
  to = cpu + seconds
  while cpu < to
    WORK.each do |name, one|
      from = cpu
      one.call
      took[name] += cpu - from
    end
  end
  took
end
sleep 0.3 # by its end the reader of frames is there
seconds = ARGV[0].to_f
all = [Thread.new { work(seconds / 2) }, Thread.new { work(seconds / 2) }].map(&:value)
took = WORK.to_h { |name, _| [name, all.sum { |one| one[name] }] }
total = took.values.sum
puts "{" + took.map { |name, s| "\"#{name}\": #{s / total}" }.join(", ") + "}"
