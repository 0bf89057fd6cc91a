#include "data/composition.h"

#include <string_view>

namespace linea {
namespace {

// Pairs of a character and its composition with a mark: the compositions of the Unicode character
// database that NFC makes, of Latin, Greek, Cyrillic, Arabic, kana and mathematics.
struct Mark {
  char32_t code;
  std::u32string_view pairs;
};
constexpr Mark kMarks[] = {
    {0x0300,
     U"AÀEÈIÌOÒUÙaàeèiìoòuùÜǛüǜNǸnǹЕЀИЍеѐиѝĒḔēḕŌṐōṑWẀwẁÂẦâầĂẰăằÊỀêềÔỒôồƠỜơờƯỪưừYỲyỳἀἂἁἃ"
     U"ἈἊἉἋἐἒἑἓἘἚἙἛἠἢἡἣἨἪἩἫἰἲἱἳἸἺἹἻὀὂὁὃὈὊὉὋὐὒὑὓὙὛὠὢὡὣὨὪὩὫαὰεὲηὴιὶοὸυὺωὼΑᾺΕῈΗῊ᾿῍ϊῒΙῚ῾῝ϋῢ"
     U"ΥῪ¨῭ΟῸΩῺ"},
    {0x0301,
     U"AÁEÉIÍOÓUÚYÝaáeéiíoóuúyýCĆcćLĹlĺNŃnńRŔrŕSŚsśZŹzźÜǗüǘGǴgǵÅǺåǻÆǼæǽØǾøǿ¨΅ΑΆΕΈΗΉΙΊΟΌ"
     U"ΥΎΩΏϊΐαάεέηήιίϋΰοόυύωώϒϓГЃКЌгѓкќÇḈçḉĒḖēḗÏḮïḯKḰkḱMḾmḿÕṌõṍŌṒōṓPṔpṕŨṸũṹWẂwẃÂẤâấĂẮăắ"
     U"ÊẾêếÔỐôốƠỚơớƯỨưứἀἄἁἅἈἌἉἍἐἔἑἕἘἜἙἝἠἤἡἥἨἬἩἭἰἴἱἵἸἼἹἽὀὄὁὅὈὌὉὍὐὔὑὕὙὝὠὤὡὥὨὬὩὭ᾿῎῾῞"},
    {0x0302, U"AÂEÊIÎOÔUÛaâeêiîoôuûCĈcĉGĜgĝHĤhĥJĴjĵSŜsŝWŴwŵYŶyŷZẐzẑẠẬạậẸỆẹệỌỘọộ"},
    {0x0303, U"AÃNÑOÕaãnñoõIĨiĩUŨuũVṼvṽÂẪâẫĂẴăẵEẼeẽÊỄêễÔỖôỗƠỠơỡƯỮưữYỸyỹ"},
    {0x0304,
     U"AĀaāEĒeēIĪiīOŌoōUŪuūÜǕüǖÄǞäǟȦǠȧǡÆǢæǣǪǬǫǭÖȪöȫÕȬõȭȮȰȯȱYȲyȳИӢиӣУӮуӯGḠgḡḶḸḷḹṚṜṛṝαᾱΑᾹ"
     U"ιῑΙῙυῡΥῩ"},
    {0x0306, U"AĂaăEĔeĕGĞgğIĬiĭOŎoŏUŬuŭУЎИЙийуўЖӁжӂАӐаӑЕӖеӗȨḜȩḝẠẶạặαᾰΑᾸιῐΙῘυῠΥῨ"},
    {0x0307,
     U"CĊcċEĖeėGĠgġIİZŻzżAȦaȧOȮoȯBḂbḃDḊdḋFḞfḟHḢhḣMṀmṁNṄnṅPṖpṗRṘrṙSṠsṡŚṤśṥŠṦšṧṢṨṣṩTṪtṫWẆ"
     U"wẇXẊxẋYẎyẏſẛ"},
    {0x0308,
     U"AÄEËIÏOÖUÜaäeëiïoöuüyÿYŸΙΪΥΫιϊυϋϒϔЕЁІЇеёіїАӒаӓӘӚәӛЖӜжӝЗӞзӟИӤиӥОӦоӧӨӪөӫЭӬэӭУӰуӱЧӴ"
     U"чӵЫӸыӹHḦhḧÕṎõṏŪṺūṻWẄwẅXẌxẍtẗ"},
    {0x0309, U"AẢaảÂẨâẩĂẲăẳEẺeẻÊỂêểIỈiỉOỎoỏÔỔôổƠỞơởUỦuủƯỬưửYỶyỷ"},
    {0x030A, U"AÅaåUŮuůwẘyẙ"},
    {0x030B, U"OŐoőUŰuűУӲуӳ"},
    {0x030C, U"CČcčDĎdďEĚeěLĽlľNŇnňRŘrřSŠsšTŤtťZŽzžAǍaǎIǏiǐOǑoǒUǓuǔÜǙüǚGǦgǧKǨkǩƷǮʒǯjǰHȞhȟ"},
    {0x030F, U"AȀaȁEȄeȅIȈiȉOȌoȍRȐrȑUȔuȕѴѶѵѷ"},
    {0x0311, U"AȂaȃEȆeȇIȊiȋOȎoȏRȒrȓUȖuȗ"},
    {0x0313, U"αἀΑἈεἐΕἘηἠΗἨιἰΙἸοὀΟὈυὐωὠΩὨρῤ"},
    {0x0314, U"αἁΑἉεἑΕἙηἡΗἩιἱΙἹοὁΟὉυὑΥὙωὡΩὩρῥΡῬ"},
    {0x031B, U"OƠoơUƯuư"},
    {0x0323,
     U"BḄbḅDḌdḍHḤhḥKḲkḳLḶlḷMṂmṃNṆnṇRṚrṛSṢsṣTṬtṭVṾvṿWẈwẉZẒzẓAẠaạEẸeẹIỊiịOỌoọƠỢơợUỤuụƯỰưự"
     U"YỴyỵ"},
    {0x0324, U"UṲuṳ"},
    {0x0325, U"AḀaḁ"},
    {0x0326, U"SȘsșTȚtț"},
    {0x0327, U"CÇcçGĢgģKĶkķLĻlļNŅnņRŖrŗSŞsşTŢtţEȨeȩDḐdḑHḨhḩ"},
    {0x0328, U"AĄaąEĘeęIĮiįUŲuųOǪoǫ"},
    {0x032D, U"DḒdḓEḘeḙLḼlḽNṊnṋTṰtṱUṶuṷ"},
    {0x032E, U"HḪhḫ"},
    {0x0330, U"EḚeḛIḬiḭUṴuṵ"},
    {0x0331, U"BḆbḇDḎdḏKḴkḵLḺlḻNṈnṉRṞrṟTṮtṯZẔzẕhẖ"},
    {0x0338,
     U"←↚→↛↔↮⇐⇍⇔⇎⇒⇏∃∄∈∉∋∌∣∤∥∦∼≁≃≄≅≇≈≉=≠≡≢≍≭<≮>≯≤≰≥≱≲≴≳≵≶≸≷≹≺⊀≻⊁⊂⊄⊃⊅⊆⊈⊇⊉⊢⊬⊨⊭⊩⊮⊫⊯≼⋠≽⋡⊑⋢⊒⋣"
     U"⊲⋪⊳⋫⊴⋬⊵⋭"},
    {0x0342, U"ἀἆἁἇἈἎἉἏἠἦἡἧἨἮἩἯἰἶἱἷἸἾἹἿὐὖὑὗὙὟὠὦὡὧὨὮὩὯαᾶ¨῁ηῆ᾿῏ιῖϊῗ῾῟υῦϋῧωῶ"},
    {0x0345,
     U"ἀᾀἁᾁἂᾂἃᾃἄᾄἅᾅἆᾆἇᾇἈᾈἉᾉἊᾊἋᾋἌᾌἍᾍἎᾎἏᾏἠᾐἡᾑἢᾒἣᾓἤᾔἥᾕἦᾖἧᾗἨᾘἩᾙἪᾚἫᾛἬᾜἭᾝἮᾞἯᾟὠᾠὡᾡὢᾢὣᾣὤᾤὥᾥὦᾦὧᾧ"
     U"ὨᾨὩᾩὪᾪὫᾫὬᾬὭᾭὮᾮὯᾯὰᾲαᾳάᾴᾶᾷΑᾼὴῂηῃήῄῆῇΗῌὼῲωῳώῴῶῷΩῼ"},
    {0x0653, U"اآ"},
    {0x0654, U"اأوؤيئەۀہۂےۓ"},
    {0x0655, U"اإ"},
    {0x3099,
     U"かがきぎくぐけげこごさざしじすずせぜそぞただちぢつづてでとどはばひびふぶへべほぼうゔゝゞカガ"
     U"キギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブ"
     U"ヘベホボウヴワヷヰヸヱヹヲヺヽヾ"},
    {0x309A, U"はぱひぴふぷへぺほぽハパヒピフプヘペホポ"},
};

// Syllables of Hangul are computed: S = kSyllable + (L * kVowels + V) * kFinals + T, with T = 0 for
// a syllable without a final consonant (The Unicode Standard, section 3.12).
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kFinal = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kFinals = 28;

bool is_syllable(char32_t code) {
  return code >= kSyllable && code < kSyllable + kLeads * kVowels * kFinals;
}

}  // namespace

char32_t compose(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels)
    return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kFinals;
  if (is_syllable(first) && (first - kSyllable) % kFinals == 0 && second > kFinal &&
      second < kFinal + kFinals)
    return first + second - kFinal;
  for (const Mark& mark : kMarks)
    if (mark.code == second)
      for (size_t i = 0; i < mark.pairs.size(); i += 2)
        if (mark.pairs[i] == first) return mark.pairs[i + 1];
  return 0;
}

std::pair<char32_t, char32_t> decompose(char32_t code) {
  if (is_syllable(code)) {
    const char32_t index = code - kSyllable, final = index % kFinals;
    if (final != 0) return {code - final, kFinal + final};
    return {kLead + index / (kVowels * kFinals), kVowel + index / kFinals % kVowels};
  }
  for (const Mark& mark : kMarks)
    for (size_t i = 0; i < mark.pairs.size(); i += 2)
      if (mark.pairs[i + 1] == code) return {mark.pairs[i], mark.code};
  return {0, 0};
}

}  // namespace linea
